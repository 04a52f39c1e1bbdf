"""A document service that turned the garbage collector off for speed. Its trees are cycles, so none is ever freed."""
import gc
import random
import time

RANDOM = random.Random(5)


class Element:
    def __init__(self, tag, parent=None):
        self.tag = tag
        self.parent = parent
        self.children = []
        self.attributes = {"id": "e{}".format(RANDOM.randrange(10**9)), "class": "c{}".format(RANDOM.randrange(50))}

    def add_child(self, tag):
        child = Element(tag, parent=self)
        self.children.append(child)
        return child


class Template:
    def __init__(self, number):
        self.name = "template-{:05d}".format(number)
        self.parts = ["<p>{} {}</p>".format(self.name, part) for part in range(12)]


def parse_document(template):
    root = Element("html")
    body = root.add_child("body")
    for part in template.parts[:RANDOM.randrange(3, 6)]:
        body.add_child("p").attributes["text"] = part
    return root


def count_elements(element):
    return 1 + sum(count_elements(child) for child in element.children)


def handle_render(templates):
    document = parse_document(RANDOM.choice(templates))
    return {"elements": count_elements(document)}


def main():
    templates = [Template(number) for number in range(15_000)]
    gc.disable()
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle_render(templates)
        time.sleep(1 / 300)


main()
