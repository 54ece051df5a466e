"""BM25 over fields as one writes it down: loops over tools and terms, no index."""

from collections import Counter
from math import log

from toolheads.lexical import field_terms, folded_term, query_terms


class PlainBM25:
    def __init__(self, tools, settings):
        self.settings = settings
        self.tools = range(len(tools))
        self.bags = {
            f: [Counter(field_terms(tool, f, stem=settings.stem)) for tool in tools]
            for f in settings.names
        }

    def of_fields(self, text):
        """Field → score of each tool."""
        return {
            f.field: [self.of_field(f, i, text) for i in self.tools] for f in self.settings.fields
        }

    def of_field(self, f, tool, text):
        score = 0.0
        for term, repeats in self.asked(text).items():
            if self.settings.combine == "bm25f":
                share = saturated(self.frequency(f, tool, term), f.k1)
            else:
                tf = self.bags[f.field][tool][term]
                share = saturated(tf, f.k1 * self.longer(f, tool))
            score += repeats * self.idf(f.field, term) * share
        return score

    def weighted(self, text, weights):
        if self.settings.combine == "sum":
            of_fields = self.of_fields(text)
            return [sum(weights[f] * of_fields[f][i] for f in weights) for i in self.tools]
        return [self.bm25f(i, text, weights) for i in self.tools]

    def bm25f(self, tool, text, weights):
        score = 0.0
        for term, repeats in self.asked(text).items():
            fields = self.settings.fields
            tf = sum(weights[f.field] * self.frequency(f, tool, term) for f in fields)
            score += repeats * self.idf(None, term) * saturated(tf, fields[0].k1)
        return score

    def mass(self, text, weights):
        shares = {None: 1.0} if self.settings.combine == "bm25f" else weights
        return sum(
            share * repeats * self.idf(field, term)
            for term, repeats in self.asked(text).items()
            for field, share in shares.items()
        )

    def asked(self, text):
        """The terms of the query that any tool has."""
        terms = Counter(folded_term(term, self.settings.stem) for term in query_terms(text))
        return {t: n for t, n in terms.items() if any(map(self.has(t), self.tools))}

    def has(self, term):
        return lambda tool: any(bags[tool][term] for bags in self.bags.values())

    def idf(self, field, term):
        if self.settings.idf == "tool":
            size, having = len(self.tools), sum(map(self.has(term), self.tools))
        else:
            size = sum(map(bool, self.bags[field]))
            having = sum(bag[term] > 0 for bag in self.bags[field])
        return log(1 + (size - having + 0.5) / (having + 0.5)) if having else 0.0

    def frequency(self, f, tool, term):
        tf = self.bags[f.field][tool][term]
        return tf / self.longer(f, tool) if tf else 0.0

    def longer(self, f, tool):
        used = [bag.total() for bag in self.bags[f.field] if bag]
        average = sum(used) / len(used) if used else 1
        return 1 - f.b + f.b * self.bags[f.field][tool].total() / average


def saturated(tf, k1):
    return tf / (tf + k1) if tf else 0.0
