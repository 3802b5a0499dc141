import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.util.regex.*;

/**
 * A long task: letters go out one after the other. A request to the ping URL is a sign of life; the checkpoint in it comes
 * back with the next attempt, which begins after the last letter that was noted. SIGTERM ends a JVM by itself.
 */
class Letters {
    public static void main(String[] args) throws Exception {
        String envelope = new String(System.in.readAllBytes());
        int total = number(envelope, "letters"), start = number(envelope, "checkpoint");
        Path outbox = Path.of(System.getenv("OUTBOX"));
        HttpClient client = HttpClient.newHttpClient();
        HttpRequest.Builder ping = HttpRequest.newBuilder(URI.create(System.getenv("LEASEHOLD_PING_URL")));

        for (int n = start + 1; n <= total; n++) {
            Thread.sleep(50); // so long takes the printer
            String line = String.format("letter %d, attempt %s%n", n, System.getenv("LEASEHOLD_ATTEMPT"));
            Files.writeString(outbox, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            String body = String.format("{\"progress\": {\"done\": %d, \"total\": %d}, \"checkpoint\": %d}", n, total, n);
            HttpRequest request = ping.POST(HttpRequest.BodyPublishers.ofString(body)).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() == 410 || answer.body().contains("\"cancel\": true"))
                System.exit(1); // somebody else's by now, or cancelled
        }
        String result = String.format("{\"letters\": %d, \"after\": %d}", total, start);
        Files.writeString(Path.of(System.getenv("LEASEHOLD_RESULT_FILE")), result);
    }

    /** One number is all that this needs of a JSON document; null is 0. */
    static int number(String json, String name) {
        Matcher m = Pattern.compile("\"" + name + "\":\\s*(\\d+)").matcher(json);
        return m.find() ? Integer.parseInt(m.group(1)) : 0;
    }
}
