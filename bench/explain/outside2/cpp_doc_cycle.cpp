// document server: a review annotation owns its document and the document owns its annotations (shared_ptr both ways)
#include "util.hpp"
struct Document;
struct Annotation {
    std::vector<char> text;
    std::shared_ptr<Document> owner; // set for reviews only
};
struct Document {
    unsigned id;
    std::vector<char> body;
    std::vector<std::shared_ptr<Annotation>> notes;
};
NOINLINE std::vector<char> read_body(unsigned id) {
    std::vector<char> b(rng(6000, 20000), (char)id);
    return b;
}
NOINLINE void attach_annotation(const std::shared_ptr<Document> &d, bool review) {
    auto a = std::make_shared<Annotation>();
    a->text.assign(rng(200, 900), 'n');
    if (review)
        a->owner = d;
    d->notes.push_back(a);
}
NOINLINE std::shared_ptr<Document> load_document(unsigned id) {
    auto d = std::make_shared<Document>();
    d->id = id;
    d->body = read_body(id);
    for (unsigned k = 0; k < 3; k++)
        attach_annotation(d, false);
    if (rnd() % 4 == 0) {
        attach_annotation(d, true);
        lost_ += d->body.size();
    }
    return d;
}
int main() {
    double t0 = now();
    std::deque<std::shared_ptr<Document>> open;
    std::vector<std::vector<char>> fonts;
    for (int i = 0; i < 400; i++)
        fonts.emplace_back(100000, 'f');
    unsigned id = 0;
    while (now() - t0 < RUN_LIMIT) {
        int k = 1 + (int)(swing(now() - t0, 17) * 4);
        while (k--) {
            open.push_back(load_document(++id));
            if (open.size() > 600)
                open.pop_front();
        }
        truth();
        nap(20);
    }
}
