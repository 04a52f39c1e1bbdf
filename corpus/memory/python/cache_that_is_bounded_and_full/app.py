"""A profile service. Its cache holds 20,000 profiles and is full from the start; each new one pushes an old one out."""
import random
import time
from collections import OrderedDict

RANDOM = random.Random(10)


class Profile:
    def __init__(self, user):
        self.user = user
        self.name = f"user number {user}"
        self.friends = [RANDOM.randrange(10**7) for _ in range(10)]
        self.settings = {"language": "en", "zone": f"zone {user % 24}", "mail": f"{user}@example.org"}


class ProfileCache:
    def __init__(self, bound):
        self.bound = bound
        self.entries = OrderedDict()

    def get(self, user):
        profile = self.entries.get(user)
        if profile is None:
            profile = self.entries[user] = Profile(user)
            if len(self.entries) > self.bound:
                self.entries.popitem(last=False)
        else:
            self.entries.move_to_end(user)
        return profile


CACHE = ProfileCache(bound=20_000)


def handle_profile():
    profile = CACHE.get(RANDOM.randrange(10**6))
    return {"name": profile.name, "friends": len(profile.friends)}


def main():
    for _ in range(30_000):
        handle_profile()
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_profile()
        time.sleep(1 / 800)


main()
