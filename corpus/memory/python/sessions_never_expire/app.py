"""A shop's login service. Every login opens a session; nothing ever removes one."""
import random
import time
from collections import deque

RANDOM = random.Random(1)


class Product:
    def __init__(self, number):
        self.number = number
        self.title = f"product {number:06d} " + "x" * RANDOM.randrange(20, 120)
        self.price = RANDOM.randrange(100, 50_000)
        self.attributes = {"colour": f"c{number % 40}", "size": f"s{number % 9}", "stock": RANDOM.randrange(1000)}


class Basket:
    def __init__(self):
        self.lines = []

    def add(self, product, count):
        self.lines.append({"product": product, "count": count, "note": f"added by search {RANDOM.random():.12f}"})


class Session:
    def __init__(self, token, user):
        self.token = token
        self.user = user
        self.opened = time.time()
        self.basket = Basket()
        self.preferences = {"language": "en", "theme": "dark", "last_page": f"/p/{RANDOM.randrange(10**9)}"}
        self.history = [f"/product/{RANDOM.randrange(10**9)}" for _ in range(8)]


class SessionStore:
    def __init__(self):
        self.by_token = {}

    def open_session(self, user):
        token = f"{RANDOM.getrandbits(128):032x}"
        session = Session(token, user)
        self.by_token[token] = session
        return session


SESSIONS = SessionStore()
RECENT_LOGINS = deque(maxlen=500)


def handle_login(user, catalogue):
    session = SESSIONS.open_session(user)
    for _ in range(RANDOM.randrange(1, 4)):
        session.basket.add(RANDOM.choice(catalogue), RANDOM.randrange(1, 5))
    RECENT_LOGINS.append((user, session.opened))
    return {"token": session.token, "lines": len(session.basket.lines)}


def main():
    catalogue = [Product(number) for number in range(40_000)]
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_login(f"user{RANDOM.randrange(10**6)}", catalogue)
        time.sleep(1 / 400)


main()
