import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** A carrier prices shipments. The cache of tariffs never hits: its key has no equals. */
public class App {
    enum ServiceLevel { ECONOMY, STANDARD, EXPRESS, OVERNIGHT }

    static class TariffKey {
        private final String origin;
        private final String destination;
        private final ServiceLevel level;

        TariffKey(String origin, String destination, ServiceLevel level) {
            this.origin = origin;
            this.destination = destination;
            this.level = level;
        }
    }

    static class Tariff {
        final String description;
        final long[] centsByWeight;
        final List<String> surcharges;

        Tariff(String description, long[] centsByWeight, List<String> surcharges) {
            this.description = description;
            this.centsByWeight = centsByWeight;
            this.surcharges = surcharges;
        }

        long cents(int weight) {
            return centsByWeight[Math.min(weight, centsByWeight.length - 1)] + 35L * surcharges.size();
        }
    }

    interface Repository<K, V> {
        V find(K key);
    }

    static class TariffRepository implements Repository<TariffKey, Tariff> {
        private final ConcurrentHashMap<TariffKey, Tariff> tariffsByKey = new ConcurrentHashMap<>();
        private final ZoneTable zones;
        private final LongAdder computed = new LongAdder();

        TariffRepository(ZoneTable zones) {
            this.zones = zones;
        }

        @Override
        public Tariff find(TariffKey key) {
            return findTariff(key);
        }

        Tariff findTariff(TariffKey key) {
            return tariffsByKey.computeIfAbsent(key, missing -> computeTariff(missing));
        }

        private Tariff computeTariff(TariffKey key) {
            computed.increment();
            int distance = zones.distance(key.origin, key.destination);
            long[] cents = new long[120];
            for (int weight = 0; weight < cents.length; weight++) {
                cents[weight] = 290 + (long) weight * distance * (1 + key.level.ordinal()) / 40;
            }
            List<String> surcharges = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                surcharges.add("surcharge " + i + " for the way from " + key.origin + " to " + key.destination);
            }
            return new Tariff(key.level + " over " + distance + " km", cents, surcharges);
        }
    }

    static class ZoneTable {
        private final Map<String, Integer> zoneByPostcode = new HashMap<>();
        private final List<String> postcodes = new ArrayList<>();

        void load(int count) {
            for (int i = 0; i < count; i++) {
                String postcode = String.format("%05d", i * 7 % 100_000);
                postcodes.add(postcode);
                zoneByPostcode.put(postcode, i % 88);
            }
        }

        String any(Random random) {
            return postcodes.get(random.nextInt(25));
        }

        int distance(String origin, String destination) {
            return 20 + 9 * Math.abs(zoneByPostcode.get(origin) - zoneByPostcode.get(destination));
        }
    }

    static class CustomerBook {
        static class Customer {
            final String name;
            final String street;
            final String contract;
            final double discount;

            Customer(int number, Random random) {
                name = "customer " + number + " and sons";
                street = "street " + random.nextInt(9_000) + ", house " + random.nextInt(300);
                contract = "contract of the year " + (1990 + random.nextInt(35)) + ", version " + random.nextInt(90);
                discount = random.nextInt(20) / 100.0;
            }
        }

        private final List<Customer> customers = new ArrayList<>();

        void load(int count, Random random) {
            for (int i = 0; i < count; i++) {
                customers.add(new Customer(i, random));
            }
        }

        Customer any(Random random) {
            return customers.get(random.nextInt(customers.size()));
        }
    }

    static class PricingService {
        private final TariffRepository tariffs;
        private final CustomerBook customers;
        private final ZoneTable zones;

        PricingService(TariffRepository tariffs, CustomerBook customers, ZoneTable zones) {
            this.tariffs = tariffs;
            this.customers = customers;
            this.zones = zones;
        }

        String priceShipment(Random random) {
            CustomerBook.Customer customer = customers.any(random);
            ServiceLevel level = ServiceLevel.values()[random.nextInt(4)];
            Tariff tariff = tariffs.findTariff(new TariffKey(zones.any(random), zones.any(random), level));
            List<String> offers = new ArrayList<>();
            for (int weight = 1; weight <= 40; weight++) {
                double price = tariff.cents(weight) * (1 - customer.discount) / 100;
                offers.add(customer.name + ": " + weight + " kg, " + tariff.description + ", " + price);
            }
            Collections.sort(offers);
            return String.join("\n", offers);
        }
    }

    static class ServiceLocator {
        private static final ServiceLocator INSTANCE = new ServiceLocator();

        private PricingService pricing;
        private final Map<String, String> settings = new HashMap<>();

        static ServiceLocator get() {
            return INSTANCE;
        }

        void start() {
            ZoneTable zones = new ZoneTable();
            zones.load(100_000);
            CustomerBook customers = new CustomerBook();
            customers.load(90_000, new Random(3));
            for (int i = 0; i < 20_000; i++) {
                settings.put("pricing.setting." + i, "value " + i * 31);
            }
            pricing = new PricingService(new TariffRepository(zones), customers, zones);
        }

        PricingService pricing() {
            return pricing;
        }
    }

    static class Worker implements Runnable {
        private final Random random;
        private final long end;
        private long characters;

        Worker(int seed, long end) {
            this.random = new Random(seed);
            this.end = end;
        }

        void handleShipment() {
            characters += ServiceLocator.get().pricing().priceShipment(random).length();
        }

        @Override
        public void run() {
            try {
                while (System.nanoTime() < end) {
                    handleShipment();
                    Thread.sleep(5);
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        ServiceLocator.get().start();
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        ExecutorService workers = Executors.newFixedThreadPool(3);
        for (int i = 0; i < 3; i++) {
            workers.execute(new Worker(40 + i, end));
        }
        workers.shutdown();
        workers.awaitTermination(150, TimeUnit.SECONDS);
    }
}
