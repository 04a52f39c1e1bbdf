import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** A wholesaler's quote service. A quote listens for changes of the stock; a finished quote listens on. */
public class App {
    static class StockEvent {
        final String topic;
        final int article;
        final int change;

        StockEvent(String topic, int article, int change) {
            this.topic = topic;
            this.article = article;
            this.change = change;
        }
    }

    static class EventBus {
        private final Map<String, List<Consumer<StockEvent>>> listenersByTopic = new ConcurrentHashMap<>();
        private final AtomicLong published = new AtomicLong();

        void registerListener(String topic, Consumer<StockEvent> listener) {
            listenersByTopic.computeIfAbsent(topic, name -> new CopyOnWriteArrayList<>()).add(listener);
        }

        void unregisterListener(String topic, Consumer<StockEvent> listener) {
            List<Consumer<StockEvent>> listeners = listenersByTopic.get(topic);
            if (listeners != null) {
                listeners.remove(listener);
            }
        }

        void publish(StockEvent event) {
            published.incrementAndGet();
            for (Consumer<StockEvent> listener : listenersByTopic.getOrDefault(event.topic, List.of())) {
                listener.accept(event);
            }
        }
    }

    static class Article {
        final int number;
        final String name;
        final String shelf;
        final Map<String, String> properties = new HashMap<>(4);
        volatile int stock;

        Article(int number, Random random) {
            this.number = number;
            this.name = "article " + number + " of the supplier " + number % 700;
            this.shelf = "hall " + number % 9 + ", shelf " + number % 431;
            this.stock = random.nextInt(5_000);
            properties.put("colour", "colour " + random.nextInt(100_000));
            properties.put("size", "size " + random.nextInt(100_000));
        }
    }

    static class Catalogue {
        private final Map<Integer, Article> articles = new HashMap<>();

        static Catalogue load(int count, Random random) {
            Catalogue catalogue = new Catalogue();
            for (int number = 0; number < count; number++) {
                catalogue.articles.put(number, new Article(number, random));
            }
            return catalogue;
        }

        Article find(int number) {
            return articles.get(number % articles.size());
        }

        String topicOf(int number) {
            return "stock." + number % 64;
        }
    }

    static class Translations {
        private static final Map<String, Map<String, String>> TEXTS = new TreeMap<>();

        static void load() {
            for (String language : List.of("de", "en", "fr", "it", "pl")) {
                Map<String, String> texts = new LinkedHashMap<>();
                for (int i = 0; i < 6_000; i++) {
                    texts.put("quote.text." + i, "text " + i + " in the language " + language);
                }
                TEXTS.put(language, texts);
            }
        }

        static String text(String language, int number) {
            return TEXTS.get(language).get("quote.text." + number % 6_000);
        }
    }

    static class QuoteLine {
        final Article article;
        final int amount;
        final String remark;

        QuoteLine(Article article, int amount, String remark) {
            this.article = article;
            this.amount = amount;
            this.remark = remark;
        }
    }

    static class QuoteRequest {
        final long number;
        final String customer;
        final List<QuoteLine> lines = new ArrayList<>();
        volatile int stockChanges;

        QuoteRequest(long number, String customer) {
            this.number = number;
            this.customer = customer;
        }

        void stockChanged(int change) {
            stockChanges += change;
        }
    }

    static class QuoteService {
        private final Catalogue catalogue;
        private final EventBus bus;
        private final AtomicLong numbers = new AtomicLong();

        QuoteService(Catalogue catalogue, EventBus bus) {
            this.catalogue = catalogue;
            this.bus = bus;
        }

        QuoteRequest parseQuote(Random random) {
            QuoteRequest request = new QuoteRequest(numbers.incrementAndGet(), "customer " + random.nextInt(40_000));
            for (int i = 0; i < 8; i++) {
                Article article = catalogue.find(random.nextInt(1_000_000));
                request.lines.add(new QuoteLine(article, 1 + random.nextInt(90),
                        "delivery to the gate " + random.nextInt(1_000) + " of the building site " + random.nextInt(1_000_000)
                                + ", not before " + random.nextInt(24) + " o'clock, crane needed: " + random.nextBoolean()
                                + ", contact by telephone " + random.nextInt(1_000_000_000)));
            }
            return request;
        }

        void followStock(QuoteRequest request) {
            String topic = catalogue.topicOf(request.lines.get(0).article.number);
            bus.registerListener(topic, event -> request.stockChanged(event.change));
        }

        String render(QuoteRequest request, String language) {
            StringBuilder page = new StringBuilder();
            for (int i = 0; i < 60; i++) {
                QuoteLine line = request.lines.get(i % request.lines.size());
                page.append(Translations.text(language, i)).append(": ").append(line.amount).append(" x ")
                        .append(line.article.name).append(", ").append(line.article.shelf).append('\n');
            }
            return page.toString();
        }

        int handleQuote(Random random) {
            QuoteRequest request = parseQuote(random);
            followStock(request);
            return render(request, "en").length();
        }
    }

    static class SupplierFeed extends Thread {
        private final EventBus bus;
        private final Catalogue catalogue;

        SupplierFeed(EventBus bus, Catalogue catalogue) {
            super("supplier-feed");
            this.bus = bus;
            this.catalogue = catalogue;
            setDaemon(true);
        }

        @Override
        public void run() {
            Random random = new Random(77);
            try {
                while (true) {
                    int article = random.nextInt(60_000);
                    bus.publish(new StockEvent(catalogue.topicOf(article), article, random.nextInt(40) - 20));
                    Thread.sleep(40);
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static void serve(QuoteService service, int worker, long end, AtomicLong bytes) {
        Random random = new Random(100 + worker);
        try {
            while (System.nanoTime() < end) {
                bytes.addAndGet(service.handleQuote(random));
                Thread.sleep(10);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Catalogue catalogue = Catalogue.load(60_000, new Random(1));
        Translations.load();
        EventBus bus = new EventBus();
        for (int i = 0; i < 64; i++) {
            bus.registerListener("stock." + i, event -> catalogue.find(event.article).stock += event.change);
        }
        QuoteService service = new QuoteService(catalogue, bus);
        new SupplierFeed(bus, catalogue).start();
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        AtomicLong bytes = new AtomicLong();
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int worker = i;
            Thread thread = new Thread(() -> serve(service, worker, end, bytes), "quote-worker-" + worker);
            workers.add(thread);
            thread.start();
        }
        for (Thread thread : workers) {
            thread.join();
        }
        System.out.println("sent " + bytes.get() + " bytes");
    }
}
