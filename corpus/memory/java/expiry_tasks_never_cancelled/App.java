import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** A booking service for trains. The timer keeps the reservations that were confirmed long ago. */
public class App {
    enum State { HELD, CONFIRMED, EXPIRED }

    static class Passenger {
        final String name;
        final String document;

        Passenger(Random random) {
            name = "passenger " + random.nextInt(1_000_000) + ", born in " + (1940 + random.nextInt(80));
            document = "passport " + Long.toHexString(random.nextLong());
        }
    }

    static class Reservation {
        final long number;
        final Train train;
        final List<Passenger> passengers = new ArrayList<>();
        final Map<String, String> wishes = new HashMap<>();
        final AtomicReference<State> state = new AtomicReference<>(State.HELD);

        Reservation(long number, Train train) {
            this.number = number;
            this.train = train;
        }
    }

    static class Train {
        final String name;
        final List<String> stops;
        final AtomicInteger freeSeats = new AtomicInteger(100_000);

        Train(String name, List<String> stops) {
            this.name = name;
            this.stops = stops;
        }
    }

    static class Timetable {
        private final Map<String, List<Train>> trainsByDay = new HashMap<>();
        private final List<Train> trains = new ArrayList<>();

        Timetable(int days, int trainsPerDay) {
            for (int day = 0; day < days; day++) {
                String name = "day " + day;
                List<Train> ofTheDay = new ArrayList<>();
                for (int i = 0; i < trainsPerDay; i++) {
                    int line = i;
                    List<String> stops = IntStream.range(0, 12)
                            .mapToObj(stop -> "station " + (line * 13 + stop * 7) % 900 + " at " + stop * 11 + " minutes")
                            .collect(Collectors.toList());
                    Train train = new Train("train " + i + " on " + name, stops);
                    ofTheDay.add(train);
                    trains.add(train);
                }
                trainsByDay.put(name, ofTheDay);
            }
        }

        Train any(Random random) {
            return trains.get(random.nextInt(trains.size()));
        }
    }

    static class FareTable {
        private final Map<String, Integer> fares = new HashMap<>();

        FareTable() {
            for (int from = 0; from < 200; from++) {
                for (int to = 0; to < 200; to++) {
                    fares.put("station " + from + " - station " + to, 300 + 13 * Math.abs(from - to));
                }
            }
        }

        int fare(int from, int to) {
            return fares.get("station " + from % 200 + " - station " + to % 200);
        }
    }

    static class ReservationService {
        private final ScheduledThreadPoolExecutor expiryTimer;
        private final Timetable timetable;
        private final FareTable fares;
        private final Map<State, AtomicInteger> counts = new EnumMap<>(State.class);
        private final AtomicInteger numbers = new AtomicInteger();

        ReservationService(Timetable timetable, FareTable fares) {
            this.timetable = timetable;
            this.fares = fares;
            for (State state : State.values()) {
                counts.put(state, new AtomicInteger());
            }
            expiryTimer = new ScheduledThreadPoolExecutor(1, runnable -> {
                Thread thread = new Thread(runnable, "expiry-timer");
                thread.setDaemon(true);
                return thread;
            });
            expiryTimer.scheduleAtFixedRate(this::cleanCounts, 1, 1, TimeUnit.SECONDS);
        }

        private void cleanCounts() {
            counts.values().forEach(count -> count.updateAndGet(value -> value % 1_000_000));
        }

        class ExpiryTask implements Runnable {
            private final Reservation reservation;

            ExpiryTask(Reservation reservation) {
                this.reservation = reservation;
            }

            @Override
            public void run() {
                if (reservation.state.compareAndSet(State.HELD, State.EXPIRED)) {
                    reservation.train.freeSeats.addAndGet(reservation.passengers.size());
                    counts.get(State.EXPIRED).incrementAndGet();
                }
            }
        }

        void scheduleExpiry(Reservation reservation) {
            expiryTimer.schedule(new ExpiryTask(reservation), 6, TimeUnit.HOURS);
        }

        Reservation reserveSeats(Random random) {
            Reservation reservation = new Reservation(numbers.incrementAndGet(), timetable.any(random));
            int passengers = 2 + random.nextInt(4);
            for (int i = 0; i < passengers; i++) {
                reservation.passengers.add(new Passenger(random));
            }
            for (String wish : List.of("seat", "meal", "coach", "direction")) {
                reservation.wishes.put(wish, wish + " of the kind " + random.nextInt(100_000));
            }
            reservation.train.freeSeats.addAndGet(-passengers);
            counts.get(State.HELD).incrementAndGet();
            scheduleExpiry(reservation);
            return reservation;
        }

        void confirm(Reservation reservation) {
            if (reservation.state.compareAndSet(State.HELD, State.CONFIRMED)) {
                counts.get(State.CONFIRMED).incrementAndGet();
            }
        }

        String printTicket(Reservation reservation) {
            StringBuilder ticket = new StringBuilder();
            for (Passenger passenger : reservation.passengers) {
                ticket.append(passenger.name).append(" with ").append(reservation.train.name).append('\n');
                for (String stop : reservation.train.stops) {
                    ticket.append("  ").append(stop).append(", fare ").append(fares.fare(stop.length(), ticket.length()));
                }
            }
            return ticket.toString();
        }
    }

    static class Endpoint implements Runnable {
        private final ReservationService service;
        private final Random random;
        private final long end;
        private long characters;

        Endpoint(ReservationService service, int seed, long end) {
            this.service = service;
            this.random = new Random(seed);
            this.end = end;
        }

        void handleReservation() {
            Reservation reservation = service.reserveSeats(random);
            characters += service.printTicket(reservation).length();
            service.confirm(reservation);
        }

        @Override
        public void run() {
            try {
                while (System.nanoTime() < end) {
                    handleReservation();
                    Thread.sleep(7);
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        ReservationService service = new ReservationService(new Timetable(60, 400), new FareTable());
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        ExecutorService workers = Executors.newCachedThreadPool();
        for (int i = 0; i < 5; i++) {
            workers.submit(new Endpoint(service, 500 + i, end));
        }
        workers.shutdown();
        workers.awaitTermination(150, TimeUnit.SECONDS);
    }
}
