import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.util.regex.*;

/**
 * A long task that sends letters. Each request to the ping URL is a ping with a checkpoint. The next attempt receives the
 * last checkpoint, and resumes after that letter. SIGTERM ends a JVM automatically.
 */
class Letters {
    public static void main(String[] args) throws Exception {
        String envelope = new String(System.in.readAllBytes());
        int total = number(envelope, "letters"), start = number(envelope, "checkpoint");
        Path outbox = Path.of(System.getenv("OUTBOX"));
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest.Builder ping = HttpRequest.newBuilder(URI.create(System.getenv("LEASEHOLD_PING_URL")));

        for (int n = start + 1; n <= total; n++) {
            Thread.sleep(50); // the time that the printer takes
            String line = String.format("letter %d, attempt %s%n", n, System.getenv("LEASEHOLD_ATTEMPT"));
            Files.writeString(outbox, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            String body = String.format("{\"progress\": {\"done\": %d, \"total\": %d}, \"checkpoint\": %d}", n, total, n);
            HttpRequest request = ping.POST(HttpRequest.BodyPublishers.ofString(body)).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() == 410 || answer.body().contains("\"cancel\": true"))
                System.exit(1); // the lease was lost, or the task was cancelled
        }
        String result = String.format("{\"letters\": %d, \"after\": %d}", total, start);
        Files.writeString(Path.of(System.getenv("LEASEHOLD_RESULT_FILE")), result);
    }

    /** Reads one number from a JSON document, which is all that this program needs; null is 0. */
    static int number(String json, String name) {
        Matcher m = Pattern.compile("\"" + name + "\":\\s*(\\d+)").matcher(json);
        return m.find() ? Integer.parseInt(m.group(1)) : 0;
    }
}
