"""A price service. An lru_cache without a bound keeps every quote, because every request has a new key."""
import functools
import random
import time

RANDOM = random.Random(2)


class QuoteLine:
    def __init__(self, article, count, cents):
        self.article = article
        self.count = count
        self.cents = cents
        self.text = f"{count} x {article} at {cents / 100:.2f} EUR each"


class Quote:
    def __init__(self, customer, lines):
        self.customer = customer
        self.lines = lines
        self.total = sum(line.count * line.cents for line in lines)


class PriceList:
    def __init__(self, articles):
        self.prices = {f"article-{number:06d}": RANDOM.randrange(50, 9000) for number in range(articles)}
        self.descriptions = {name: {"long": name * 8, "short": name.upper()} for name in self.prices}

    @functools.lru_cache(maxsize=None)
    def compute_quote(self, customer, articles):
        return Quote(customer, [QuoteLine(name, count, self.prices[name]) for name, count in articles])


def read_order(names):
    """What a client asks for: a customer and some articles, hardly ever the same twice."""
    articles = tuple((RANDOM.choice(names), RANDOM.randrange(1, 100)) for _ in range(6))
    return f"customer-{RANDOM.randrange(10**7)}", articles


def handle_quote(price_list, names):
    customer, articles = read_order(names)
    quote = price_list.compute_quote(customer, articles)
    return {"customer": quote.customer, "total": quote.total}


def main():
    price_list = PriceList(50_000)
    names = list(price_list.prices)
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_quote(price_list, names)
        time.sleep(1 / 400)


main()
