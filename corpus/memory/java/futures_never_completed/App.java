import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;

/** A payment service in front of a card gateway. A reply that never comes leaves its future in the map. */
public class App {
    static final class AuthorizationRequest {
        final long correlation;
        final String merchant;
        final byte[] body;
        final Map<String, String> headers;

        AuthorizationRequest(long correlation, String merchant, byte[] body, Map<String, String> headers) {
            this.correlation = correlation;
            this.merchant = merchant;
            this.body = body;
            this.headers = headers;
        }
    }

    static final class AuthorizationReply {
        final long correlation;
        final boolean approved;
        final String text;

        AuthorizationReply(long correlation, boolean approved, String text) {
            this.correlation = correlation;
            this.approved = approved;
            this.text = text;
        }
    }

    static final class Booking {
        final String merchant;
        final int bytes;
        final boolean approved;

        Booking(String merchant, int bytes, boolean approved) {
            this.merchant = merchant;
            this.bytes = bytes;
            this.approved = approved;
        }
    }

    /** The other side: answers three of four messages. */
    static class Gateway extends Thread {
        private final BlockingQueue<byte[]> wire = new ArrayBlockingQueue<>(256);
        private final GatewayClient client;
        private final Random random = new Random(13);

        Gateway(GatewayClient client) {
            super("gateway-reader");
            this.client = client;
            setDaemon(true);
        }

        void write(byte[] frame) throws InterruptedException {
            wire.put(frame);
        }

        @Override
        public void run() {
            try {
                while (true) {
                    String frame = new String(wire.take(), StandardCharsets.UTF_8);
                    long correlation = Long.parseLong(frame.substring(0, frame.indexOf('|')));
                    if (random.nextInt(4) != 0) {
                        client.onReply(new AuthorizationReply(correlation, random.nextInt(20) != 0, "gateway text"));
                    }
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static class GatewayClient {
        private final ConcurrentMap<Long, CompletableFuture<AuthorizationReply>> pendingReplies =
                new ConcurrentHashMap<>();
        private final Gateway gateway = new Gateway(this);
        private final AtomicLong unknownReplies = new AtomicLong();

        void connect() {
            gateway.start();
        }

        CompletableFuture<AuthorizationReply> sendAuthorization(AuthorizationRequest request)
                throws InterruptedException {
            CompletableFuture<AuthorizationReply> reply = new CompletableFuture<>();
            pendingReplies.put(request.correlation, reply);
            String frame = request.correlation + "|" + request.merchant + "|" + request.body.length;
            gateway.write(frame.getBytes(StandardCharsets.UTF_8));
            return reply;
        }

        void onReply(AuthorizationReply reply) {
            CompletableFuture<AuthorizationReply> waiting = pendingReplies.remove(reply.correlation);
            if (waiting == null) {
                unknownReplies.incrementAndGet();
            } else {
                waiting.complete(reply);
            }
        }
    }

    static class MerchantDirectory {
        record Merchant(String name, String city, List<String> terminals, Map<String, String> rules) { }

        private final List<Merchant> merchants = new ArrayList<>();

        MerchantDirectory(int count) {
            Random random = new Random(5);
            for (int i = 0; i < count; i++) {
                List<String> terminals = new ArrayList<>();
                for (int t = 0; t < 4; t++) {
                    terminals.add("terminal " + i + "/" + t);
                }
                Map<String, String> rules = new HashMap<>();
                rules.put("limit", "at most " + random.nextInt(10_000) + " a day");
                rules.put("countries", "list " + random.nextInt(500));
                merchants.add(new Merchant("merchant " + i, "city " + i % 2_100, terminals, rules));
            }
        }

        Merchant any(Random random) {
            return merchants.get(random.nextInt(merchants.size()));
        }
    }

    static class PaymentService {
        private final GatewayClient client;
        private final MerchantDirectory directory;
        private final AtomicLong correlations = new AtomicLong(1_000_000);
        private final AtomicLong approved = new AtomicLong();
        private final AtomicLong refused = new AtomicLong();

        PaymentService(GatewayClient client, MerchantDirectory directory) {
            this.client = client;
            this.directory = directory;
        }

        AuthorizationRequest buildAuthorization(Random random) {
            MerchantDirectory.Merchant merchant = directory.any(random);
            StringBuilder body = new StringBuilder("<authorization>");
            for (int i = 0; i < 90; i++) {
                body.append("<field id='").append(i).append("'>").append(random.nextInt(1_000_000_000)).append("</field>");
            }
            Map<String, String> headers = new HashMap<>();
            for (String header : List.of("trace", "span", "device", "session", "signature")) {
                headers.put(header, header + "-" + Long.toHexString(random.nextLong()));
            }
            return new AuthorizationRequest(correlations.incrementAndGet(), merchant.name(),
                    body.toString().getBytes(StandardCharsets.UTF_8), headers);
        }

        void authorizePayment(AuthorizationRequest request) throws InterruptedException {
            client.sendAuthorization(request)
                    .thenApply(reply -> new Booking(request.merchant, request.body.length, reply.approved))
                    .thenAccept(this::book);
        }

        private void book(Booking booking) {
            (booking.approved ? approved : refused).addAndGet(booking.bytes);
        }

        void handlePayment(Random random) throws InterruptedException {
            authorizePayment(buildAuthorization(random));
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        MerchantDirectory directory = new MerchantDirectory(35_000);
        GatewayClient client = new GatewayClient();
        client.connect();
        PaymentService service = new PaymentService(client, directory);
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        Thread[] workers = new Thread[5];
        for (int i = 0; i < workers.length; i++) {
            Random random = new Random(900 + i);
            workers[i] = new Thread(() -> {
                try {
                    while (System.nanoTime() < end) {
                        service.handlePayment(random);
                        Thread.sleep(8);
                    }
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            }, "http-" + i);
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }
}
