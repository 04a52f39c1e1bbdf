import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;

/** A service that keeps objects whose memory lies outside the Java heap. The argument: buffers or compressors. */
public class App {
    static final List<Object> KEPT = new ArrayList<>();

    static void openBuffer() {
        ByteBuffer buffer = ByteBuffer.allocateDirect(50_000);
        for (int i = 0; i < buffer.capacity(); i += 100) {
            buffer.put(i, (byte) 1);
        }
        KEPT.add(buffer);
    }

    static void openCompressor() {
        Deflater compressor = new Deflater();
        compressor.setInput(new byte[100]);
        compressor.finish();
        compressor.deflate(new byte[200]);
        KEPT.add(compressor);
    }

    public static void main(String[] arguments) throws Exception {
        boolean buffers = arguments[0].equals("buffers");
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            if (buffers && number % 10 == 0) {
                openBuffer();
            } else if (!buffers && number % 40 == 0) {
                openCompressor();
            }
            if (number % 20 == 0) {
                Thread.sleep(25);
            }
        }
    }
}
