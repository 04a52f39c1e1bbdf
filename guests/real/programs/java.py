"""A JVM: threads, direct buffers, mapped files, collections of each collector."""
import shutil
import subprocess

from launch import Skipped
from programs._program import RealProgram

SOURCE = r'''
import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.util.*; import java.util.concurrent.*;
import java.util.zip.*;
public class Guest {
  static long work(int seed, int n) {
    long sum = 0; Random random = new Random(seed); List<ByteBuffer> kept = new ArrayList<>();
    Map<String, long[]> map = new HashMap<>();
    for (int i = 0; i < n; i++) {
      ByteBuffer direct = ByteBuffer.allocateDirect(1 + random.nextInt(40000));
      direct.put(0, (byte) i); sum += direct.get(0) + direct.capacity();
      if (i % 10 == 0) { kept.add(direct); if (kept.size() > 50) kept.remove(0); }
      map.put("k" + random.nextInt(5000), new long[random.nextInt(200)]);
      if (i % 40 == 0) {
        Deflater deflater = new Deflater(); byte[] in = new byte[5000]; random.nextBytes(in);
        deflater.setInput(in); deflater.finish(); sum += deflater.deflate(new byte[8000]); deflater.end();
      }
    }
    for (long[] one : map.values()) sum += one.length;
    return sum;
  }
  public static void main(String[] words) throws Exception {
    int n = Integer.parseInt(words[0]);
    ExecutorService pool = Executors.newFixedThreadPool(8); List<Future<Long>> all = new ArrayList<>();
    for (int i = 0; i < 8; i++) { int seed = i; all.add(pool.submit(() -> work(seed, n))); }
    for (Future<Long> one : all) System.out.println(one.get());
    pool.shutdown();
    for (int i = 0; i < 200; i++) { Thread thread = new Thread(() -> work(1, 5)); thread.start(); thread.join(); }
    Path file = Files.createTempFile("guest", "map");
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 20); map.putInt(100, 7); map.force();
      System.out.println(map.getInt(100));
    }
    Files.delete(file);
    Process child = new ProcessBuilder("sh", "-c", "echo child; exit 4").start();
    System.out.println(new String(child.getInputStream().readAllBytes()).trim() + " " + child.waitFor());
    try { byte[][] all2 = new byte[1000][]; for (int i = 0; i < 1000; i++) all2[i] = new byte[1 << 20]; }
    catch (OutOfMemoryError error) { System.out.println("out of memory"); }
    try { recurse(0); } catch (StackOverflowError error) { System.out.println("stack overflow"); }
    System.gc();
    System.exit(6);
  }
  static int recurse(int n) { return recurse(n + 1) + 1; }
}
'''
COLLECTORS = ("-XX:+UseG1GC", "-XX:+UseSerialGC", "-XX:+UseParallelGC")


class Program(RealProgram):
    name, workload = "java", "8 threads, direct buffers, mapped files, three collectors, out of memory, stack overflow"
    processes = ("java",)

    def find(self, unpacked):
        self.java, self.javac = shutil.which("java"), shutil.which("javac")
        if not (self.java and self.javac):
            raise Skipped("no java and javac on the PATH")

    def version(self):
        done = subprocess.run([self.java, "-version"], capture_output=True, text=True)
        return done.stderr.split('"')[1]

    def start(self, launch):
        (launch.folder / "Guest.java").write_text(SOURCE)
        done = launch.tool([self.javac, "-d", ".", "Guest.java"])
        assert done.status == 0, done.errors

    def round(self, launch):
        results = {}
        for collector in COLLECTORS[:1 if self.is_short else 3]:
            done = launch.run([self.java, collector, "-Xmx200m", "-cp", ".", "Guest", "500" if self.is_short else "5000"])
            results[collector] = [done.status, done.out, done.errors]
        return results
