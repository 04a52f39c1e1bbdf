import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;

/** A server of map tiles. Its cache has a fixed number of tiles; the pages around them are garbage at once. */
public class App {
    static class LruCache<K, V> extends LinkedHashMap<K, V> {
        private final int capacity;

        LruCache(int capacity) {
            super(capacity * 4 / 3 + 1, 0.75f, true);
            this.capacity = capacity;
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
            return size() > capacity;
        }
    }

    static final class TileKey {
        final int zoom;
        final int x;
        final int y;

        TileKey(int zoom, int x, int y) {
            this.zoom = zoom;
            this.x = x;
            this.y = y;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof TileKey && ((TileKey) other).zoom == zoom && ((TileKey) other).x == x
                    && ((TileKey) other).y == y;
        }

        @Override
        public int hashCode() {
            return Objects.hash(zoom, x, y);
        }
    }

    static class Tile {
        final byte[] pixels;
        final String legend;

        Tile(byte[] pixels, String legend) {
            this.pixels = pixels;
            this.legend = legend;
        }
    }

    static class TileStore {
        private final LruCache<TileKey, Tile> cache;
        private final Function<TileKey, Tile> painter;
        private long hits;
        private long misses;

        TileStore(int capacity, Function<TileKey, Tile> painter) {
            this.cache = new LruCache<>(capacity);
            this.painter = painter;
        }

        synchronized Tile tile(TileKey key) {
            Tile tile = cache.get(key);
            if (tile != null) {
                hits++;
                return tile;
            }
            misses++;
            tile = painter.apply(key);
            cache.put(key, tile);
            return tile;
        }

        void warm(int capacity) {
            for (int i = 0; i < capacity; i++) {
                tile(keyOf(i));
            }
        }

        static TileKey keyOf(int number) {
            return new TileKey(12, number % 160, number / 160);
        }
    }

    static class PlaceNames {
        static class Place {
            final String name;
            final String region;
            final double latitude;
            final double longitude;
            final List<String> otherNames = new ArrayList<>(2);

            Place(int number, Random random) {
                name = "place " + number;
                region = "region " + number % 450 + " of the country " + number % 31;
                latitude = random.nextDouble() * 180 - 90;
                longitude = random.nextDouble() * 360 - 180;
                otherNames.add("old name " + random.nextInt(1_000_000));
            }
        }

        private final Map<String, Place> places = new HashMap<>();

        PlaceNames(int count) {
            Random random = new Random(4);
            for (int i = 0; i < count; i++) {
                Place place = new Place(i, random);
                places.put(place.name, place);
            }
        }

        Place find(int number) {
            return places.get("place " + number % places.size());
        }
    }

    static class Painter {
        private final PlaceNames names;
        private final Map<String, int[]> palettes = new HashMap<>();

        Painter(PlaceNames names) {
            this.names = names;
            for (int i = 0; i < 40; i++) {
                int[] colours = new int[256];
                Arrays.setAll(colours, index -> index * 65_793);
                palettes.put("palette " + i, colours);
            }
        }

        Tile paint(TileKey key) {
            int[] colours = palettes.get("palette " + key.x % 40);
            byte[] pixels = new byte[4_000 + key.x * 31 % 2_000];
            for (int i = 0; i < pixels.length; i++) {
                pixels[i] = (byte) (colours[i & 255] >> key.zoom + i * key.y);
            }
            return new Tile(pixels, "map of " + names.find(key.x * 911 + key.y).region);
        }
    }

    static class MapServer {
        private final TileStore store;
        private final PlaceNames names;
        private final AtomicLong sent = new AtomicLong();

        MapServer(TileStore store, PlaceNames names) {
            this.store = store;
            this.names = names;
        }

        String handlePage(Random random) {
            List<String> parts = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                int number = random.nextInt(12) == 0 ? random.nextInt(25_600) : random.nextInt(4_000);
                Tile tile = store.tile(TileStore.keyOf(number));
                PlaceNames.Place place = names.find(random.nextInt(1_000_000));
                StringBuilder part = new StringBuilder(tile.legend).append(": ").append(place.name).append(' ');
                for (int pixel = 0; pixel < 1_500; pixel++) {
                    part.append((char) ('a' + (tile.pixels[pixel] & 15)));
                }
                parts.add(part.append(place.latitude).append(' ').append(place.longitude).toString());
            }
            String page = String.join("\n", parts);
            sent.addAndGet(page.length());
            return page;
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        PlaceNames names = new PlaceNames(60_000);
        Painter painter = new Painter(names);
        TileStore store = new TileStore(5_500, painter::paint);
        store.warm(6_000);
        MapServer server = new MapServer(store, names);
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            Random random = new Random(70 + i);
            Thread worker = new Thread(() -> {
                while (System.nanoTime() < end) {
                    server.handlePage(random);
                    try {
                        Thread.sleep(7);
                    } catch (InterruptedException stopped) {
                        return;
                    }
                }
            }, "map-" + i);
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }
}
