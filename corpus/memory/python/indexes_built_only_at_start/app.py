"""A catalogue service. It loads its data once, and builds an index per category the first time one is asked for."""
import random
import time

RANDOM = random.Random(11)
CATEGORIES = 300


class Article:
    def __init__(self, number):
        self.number = number
        self.category = number % CATEGORIES
        self.title = f"article {number} of category {self.category}"
        self.words = [f"word{RANDOM.randrange(4000)}" for _ in range(4)]


class Catalogue:
    def __init__(self, articles):
        self.by_category = {}
        for number in range(articles):
            article = Article(number)
            self.by_category.setdefault(article.category, []).append(article)
        self.indexes = {}

    def index_of(self, category):
        if category not in self.indexes:
            index = {}
            for article in self.by_category[category]:
                for word in article.words:
                    index.setdefault(word, []).append(article.number)
            self.indexes[category] = index
        return self.indexes[category]


def handle_search(catalogue):
    index = catalogue.index_of(RANDOM.randrange(CATEGORIES))
    word = f"word{RANDOM.randrange(4000)}"
    return {"word": word, "found": len(index.get(word, ()))}


def main():
    catalogue = Catalogue(45_000)
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_search(catalogue)
        time.sleep(1 / 400)


main()
