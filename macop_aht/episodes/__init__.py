"""Episodes: the one runner that everything which plays goes through."""
