"""An export service. Clients leave after the first page; the half-read generators stay in a class-level list."""
import random
import time

RANDOM = random.Random(9)


class Record:
    __slots__ = ("number", "fields")

    def __init__(self, number):
        self.number = number
        self.fields = {"name": f"name {number}", "city": f"city {number % 800}", "score": number * 7 % 1000}


class ExportView:
    running_exports = []

    def __init__(self, records):
        self.records = records

    def stream_rows(self, first, count):
        rows = [f"{record.number};{record.fields['name']};{record.fields['city']};{record.fields['score']}"
                for record in self.records[first:first + count]]
        yield "number;name;city;score"
        for row in rows:
            yield row

    def start_export(self):
        first = RANDOM.randrange(len(self.records) - 100)
        export = self.stream_rows(first, RANDOM.randrange(20, 60))
        self.running_exports.append(export)
        return export

    def handle_export(self):
        export = self.start_export()
        return [next(export) for _ in range(10)]


def main():
    view = ExportView([Record(number) for number in range(70_000)])
    print("ready", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        view.handle_export()
        time.sleep(1 / 250)


main()
