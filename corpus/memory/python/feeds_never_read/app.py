"""A dashboard that follows price feeds. Each view opens a connection of its own; those of closed views are kept open
and never read again. With `closed` a view that is closed closes its connection."""
import os
import random
import socket
import sys
import time

RANDOM = random.Random(1)
END = time.monotonic() + 120


def publish(listening):
    """The exchange: sends a batch of prices to every subscriber that takes it."""
    listening.setblocking(False)
    subscribers = []
    while time.monotonic() < END:
        try:
            while True:
                subscriber, _ = listening.accept()
                subscriber.setblocking(False)
                subscribers.append(subscriber)
        except BlockingIOError:
            pass
        for subscriber in list(subscribers):
            try:
                subscriber.send(b"EURUSD 1.0842\n" * 290)
            except BlockingIOError:
                pass
            except OSError:
                subscribers.remove(subscriber)
        time.sleep(0.25)


class View:
    def __init__(self, feed):
        self.feed = feed
        self.connection = socket.create_connection(feed)
        self.connection.setblocking(False)
        self.prices = {}

    def refresh(self):
        data = self.connection.recv(1 << 20)
        for line in data.decode().splitlines():
            name, _, price = line.partition(" ")
            self.prices[name] = price


class Dashboard:
    def __init__(self, feed, closes):
        self.feed = feed
        self.closes = closes
        self.shown = [View(feed) for _ in range(20)]
        self.history = []
        self.background = {f"row {number}": "x" * 200 for number in range(100_000)}

    def replace_view(self):
        """Every request shows another instrument in one of the views."""
        place = RANDOM.randrange(len(self.shown))
        old = self.shown[place]
        if self.closes:
            old.connection.close()
        elif len(self.history) < 400:
            self.history.append(old)
        else:
            return
        self.shown[place] = View(self.feed)


def main():
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    feed = listening.getsockname()
    # The exchange is a process of its own, and no child of the dashboard's.
    if (child := os.fork()) == 0:
        if os.fork() == 0:
            publish(listening)
        os._exit(0)
    os.waitpid(child, 0)
    listening.close()
    dashboard = Dashboard(feed, "closed" in sys.argv)
    print("ready", flush=True)
    while time.monotonic() < END:
        dashboard.replace_view()
        for view in dashboard.shown:
            try:
                view.refresh()
            except BlockingIOError:
                pass
        time.sleep(0.01)


main()
