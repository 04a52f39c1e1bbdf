import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;

/** A proxy that packs answers. Everything it keeps has a bound, and all of it is full before the first request. */
public class App {
    static class BufferPool {
        private final BlockingQueue<byte[]> freeBuffers;

        BufferPool(int count, int size) {
            freeBuffers = new ArrayBlockingQueue<>(count);
            for (int i = 0; i < count; i++) {
                byte[] buffer = new byte[size];
                new Random(i).nextBytes(buffer);
                freeBuffers.add(buffer);
            }
        }

        Lease lease() throws InterruptedException {
            return new Lease(freeBuffers.take());
        }

        class Lease implements AutoCloseable {
            final byte[] buffer;

            Lease(byte[] buffer) {
                this.buffer = buffer;
            }

            @Override
            public void close() {
                freeBuffers.add(buffer);
            }
        }
    }

    static class RequestRecord {
        final String path;
        final String client;
        final Map<String, String> headers;
        final int bytes;

        RequestRecord(String path, String client, Map<String, String> headers, int bytes) {
            this.path = path;
            this.client = client;
            this.headers = headers;
            this.bytes = bytes;
        }
    }

    static class SlidingWindow<T> {
        private final Deque<T> items;
        private final int limit;

        SlidingWindow(int limit) {
            this.limit = limit;
            this.items = new ArrayDeque<>(limit + 1);
        }

        synchronized void add(T item) {
            items.addLast(item);
            while (items.size() > limit) {
                items.removeFirst();
            }
        }

        synchronized int size() {
            return items.size();
        }
    }

    static class RotatingLog {
        private static final int LINES = 3_000;
        private final Deque<List<String>> segments = new ArrayDeque<>();
        private final int limit;
        private List<String> current = new ArrayList<>();
        private long number;

        RotatingLog(int limit) {
            this.limit = limit;
        }

        synchronized void log(String text) {
            current.add(++number + " " + text);
            if (current.size() >= LINES) {
                segments.addLast(current);
                current = new ArrayList<>();
                if (segments.size() > limit) {
                    segments.removeFirst();
                }
            }
        }
    }

    static class Routes {
        static class Route {
            final String prefix;
            final List<String> servers = new ArrayList<>();
            final Map<String, String> options = new HashMap<>();

            Route(int number) {
                prefix = "/service-" + number + "/";
                for (int i = 0; i < 4; i++) {
                    servers.add("10." + number % 250 + "." + i + ".7:8" + number % 1_000);
                    options.put("option." + i, "value " + (number * 4 + i));
                }
            }
        }

        private final List<Route> routes = new ArrayList<>();

        Routes(int count) {
            for (int i = 0; i < count; i++) {
                routes.add(new Route(i));
            }
        }

        Route any(Random random) {
            return routes.get(random.nextInt(routes.size()));
        }
    }

    static class Proxy {
        private final BufferPool pool = new BufferPool(24, 512 * 1024);
        private final SlidingWindow<RequestRecord> lastRequests = new SlidingWindow<>(8_000);
        private final RotatingLog log = new RotatingLog(6);
        private final Routes routes = new Routes(18_000);
        private final AtomicLong checksums = new AtomicLong();

        RequestRecord readRequest(Random random) {
            Routes.Route route = routes.any(random);
            Map<String, String> headers = new HashMap<>();
            for (int i = 0; i < 6; i++) {
                headers.put("x-header-" + i, "value " + random.nextInt(1_000_000_000));
            }
            return new RequestRecord(route.prefix + "item/" + random.nextInt(1_000_000),
                    "192.168." + random.nextInt(250) + "." + random.nextInt(250), headers, 8_000 + random.nextInt(20_000));
        }

        void keep(RequestRecord request, long checksum) {
            lastRequests.add(request);
            log.log(request.client + " GET " + request.path + " " + request.bytes + " bytes, sum " + checksum);
        }

        void handleRequest(Random random) throws InterruptedException {
            RequestRecord request = readRequest(random);
            byte[] body = new byte[request.bytes];
            random.nextBytes(body);
            try (BufferPool.Lease lease = pool.lease()) {
                System.arraycopy(body, 0, lease.buffer, random.nextInt(lease.buffer.length - body.length), body.length);
                CRC32 sum = new CRC32();
                sum.update(lease.buffer, 0, 64 * 1024);
                checksums.addAndGet(sum.getValue());
                keep(request, sum.getValue());
            }
        }

        void warm() {
            Random random = new Random(1);
            for (int i = 0; i < 25_000; i++) {
                keep(readRequest(random), random.nextInt());
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Proxy proxy = new Proxy();
        proxy.warm();
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        Thread[] workers = new Thread[4];
        for (int i = 0; i < workers.length; i++) {
            Random random = new Random(200 + i);
            workers[i] = new Thread(() -> {
                try {
                    while (System.nanoTime() < end) {
                        proxy.handleRequest(random);
                        Thread.sleep(9);
                    }
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            }, "proxy-" + i);
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }
}
