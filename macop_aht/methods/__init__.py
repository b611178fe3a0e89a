"""The methods: how teammates are generated, and how an ego learns to play with them. One algorithm box per file."""
