import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;

/** A price service. Its cache holds 15,000 prices and is full from the start; each new one pushes the oldest out. */
public class App {
    static final Random RANDOM = new Random(5);

    static class Price {
        final String article;
        final long[] history = new long[60];

        Price(int article) {
            this.article = "article " + article;
            for (int i = 0; i < history.length; i++) {
                history[i] = RANDOM.nextInt(100_000);
            }
        }
    }

    static class PriceCache extends LinkedHashMap<Integer, Price> {
        private final int bound;

        PriceCache(int bound) {
            super(16, 0.75f, true);
            this.bound = bound;
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, Price> eldest) {
            return size() > bound;
        }
    }

    static long handlePrice(PriceCache cache) {
        Price price = cache.computeIfAbsent(RANDOM.nextInt(1_000_000), Price::new);
        return price.history[price.history.length - 1];
    }

    public static void main(String[] arguments) throws InterruptedException {
        PriceCache cache = new PriceCache(15_000);
        for (int i = 0; i < 1_500_000; i++) {
            handlePrice(cache);
        }
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        while (System.nanoTime() < end) {
            handlePrice(cache);
            Thread.sleep(1);
        }
    }
}
