"""Adapters: the worlds as Gymnasium, vectorised Gymnasium and PettingZoo environments."""
