"""From a finished run to an ego bundle: graphs, generalist head, recogniser, card."""
