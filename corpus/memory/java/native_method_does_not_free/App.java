/** A checksum service whose native method does not free its copy of the text. */
public class App {
    static native int hashText(String text);

    public static void main(String[] arguments) throws Exception {
        System.load(new java.io.File("checksum.so").getAbsolutePath());
        System.out.println("ready");
        long end = System.nanoTime() + 120_000_000_000L;
        for (int number = 0; System.nanoTime() < end; number++) {
            hashText("text ".repeat(200) + number);
            byte[] page = new byte[5000];
            page[number % page.length] = 1;
            if (number % 20 == 0) {
                Thread.sleep(30);
            }
        }
    }
}
