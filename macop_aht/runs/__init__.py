"""Run folders: what is written while something is trained, and read when it is finished."""
