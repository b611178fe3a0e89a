"""What agents and teammates are worth: behaviour, cross-play, figures and reports."""
