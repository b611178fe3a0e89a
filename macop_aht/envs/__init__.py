"""Adapters: the worlds as Gymnasium, vectorised and PettingZoo environments."""
