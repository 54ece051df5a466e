"""Entry points: parse, call one use case, render. They decide nothing."""
