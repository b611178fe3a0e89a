// Tables that can be browsed: a field that filters their rows, and heads that sort them.
