import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's own library as the oracle of batches: it makes random ones, and reads what became of them.
 *
 * <pre>
 * Batches make SEED COUNT CASES        writes COUNT cases
 * Batches check CASES REWRITES         says how many records came and were lost; ends with 1 if one is not as it was
 * </pre>
 */
final class Batches {
    private static final int MILLION = 1_000_000;

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("make")) {
            make(Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]), Path.of(arguments[3]));
        } else {
            check(Path.of(arguments[1]), Path.of(arguments[2]));
        }
    }

    private static void make(long seed, int count, Path path) throws IOException {
        Random random = new Random(seed);
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(path))) {
            for (int number = 0; number < count; number++) {
                byte[] batches = batches(random);
                out.writeByte(random.nextInt(2));
                // One in ten has the bound at its end: everything, or next to nothing.
                out.writeInt(random.nextInt(10) == 0 ? (random.nextBoolean() ? MILLION : 1) : 1 + random.nextInt(MILLION));
                out.writeInt(random.nextInt(3));
                out.writeInt(random.nextInt());
                out.writeInt(batches.length);
                out.write(batches);
            }
        }
    }

    /** Batches of one partition, as a broker's response has them: after each other, the last one perhaps cut short. */
    private static byte[] batches(Random random) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        long next = random.nextInt(4) == 0 ? Long.MAX_VALUE / 2 + random.nextInt(1000) : random.nextInt(100_000);
        for (int left = 1 + random.nextInt(5); left > 0; left--) {
            ByteBuffer bytes;
            if (random.nextInt(8) == 0) {
                EndTransactionMarker end = new EndTransactionMarker(ControlRecordType.ABORT, random.nextInt(9));
                bytes = MemoryRecords.withEndTransactionMarker(next, 1_700_000_000_000L, 4, 77L, (short) 3, end).buffer();
                next++;
            } else {
                MemoryRecordsBuilder builder = builder(random, next);
                int count = 1 + (random.nextInt(3) == 0 ? random.nextInt(400) : random.nextInt(30));
                long time = 1_700_000_000_000L + random.nextInt(1_000_000);
                long last = next;
                for (int number = 0; number < count; number++) {
                    // Compaction leaves gaps.
                    last = next + (random.nextInt(20) == 0 ? random.nextInt(300) : 0);
                    next = last + 1;
                    builder.appendWithOffset(last, time + random.nextInt(2000) - 1000, field(random), field(random),
                            builder.magic() < RecordBatch.MAGIC_VALUE_V2 ? Record.EMPTY_HEADERS : headers(random));
                }
                if (random.nextInt(6) == 0) {
                    next += 1 + random.nextInt(50);
                    builder.overrideLastOffset(next - 1);
                }
                bytes = builder.build().buffer();
            }
            byte[] batch = new byte[bytes.remaining()];
            bytes.duplicate().get(batch);
            boolean cut = left == 1 && random.nextInt(4) == 0;
            all.write(batch, 0, cut ? random.nextInt(batch.length) : batch.length);
        }
        return all.toByteArray();
    }

    private static MemoryRecordsBuilder builder(Random random, long base) {
        CompressionType codec = CompressionType.values()[random.nextInt(5)];
        TimestampType kind = random.nextInt(3) == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        boolean transactional = random.nextInt(4) == 0;
        boolean idempotent = transactional || random.nextBoolean();
        // Rarely the format before version 2.
        byte magic = RecordBatch.MAGIC_VALUE_V2;
        if (random.nextInt(25) == 0 && !idempotent && codec != CompressionType.ZSTD) {
            magic = RecordBatch.MAGIC_VALUE_V1;
        }
        return new MemoryRecordsBuilder(
                new ByteBufferOutputStream(1 << 16), magic, Compression.of(codec).build(), kind, base, 1_800_000_000_000L,
                idempotent ? 77 + random.nextInt(1000) : RecordBatch.NO_PRODUCER_ID,
                idempotent ? (short) random.nextInt(100) : RecordBatch.NO_PRODUCER_EPOCH,
                idempotent ? random.nextInt(Integer.MAX_VALUE) : RecordBatch.NO_SEQUENCE,
                transactional, false, random.nextInt(10), 1 << 30);
    }

    private static byte[] field(Random random) {
        switch (random.nextInt(6)) {
            case 0:
                return null;
            case 1:
                return new byte[0];
            case 2:
                // It packs well.
                byte[] same = new byte[random.nextInt(500)];
                Arrays.fill(same, (byte) random.nextInt());
                return same;
            default:
                byte[] bytes = new byte[random.nextInt(200)];
                random.nextBytes(bytes);
                return bytes;
        }
    }

    private static Header[] headers(Random random) {
        Header[] headers = new Header[random.nextInt(4) == 0 ? random.nextInt(5) : 0];
        for (int number = 0; number < headers.length; number++) {
            headers[number] = new RecordHeader("name" + random.nextInt(3), field(random));
        }
        return headers;
    }

    private static void check(Path cases, Path rewrites) throws IOException {
        long[] counts = new long[4];
        try (DataInputStream given = new DataInputStream(Files.newInputStream(cases));
                DataInputStream made = new DataInputStream(Files.newInputStream(rewrites))) {
            for (int number = 0; given.available() > 0; number++) {
                boolean inMessages = given.readByte() != 0;
                int millionths = given.readInt();
                given.readInt();
                given.readInt();
                byte[] before = given.readNBytes(given.readInt());
                byte[] after = made.readNBytes(made.readInt());
                long[][] lost = new long[made.readInt()][];
                for (int range = 0; range < lost.length; range++) {
                    lost[range] = new long[] {made.readLong(), made.readLong()};
                }
                try {
                    compare(before, after, lost, millionths, counts);
                } catch (RuntimeException wrong) {
                    System.err.println("case " + number + (inMessages ? " in messages" : "") + ": " + wrong);
                    wrong.printStackTrace();
                    System.exit(1);
                }
            }
            need(made.available() == 0, "rewrites without a case");
        }
        System.out.printf("{\"batches\": %d, \"packed again\": %d, \"records\": %d, \"lost\": %d}%n",
                counts[0], counts[1], counts[2], counts[3]);
    }

    /** Each batch is there with its fields, its CRC holds, and it has exactly those records that are not lost, as they were. */
    private static void compare(byte[] before, byte[] after, long[][] lost, int millionths, long[] counts) {
        List<MutableRecordBatch> given = list(before);
        List<MutableRecordBatch> got = list(after);
        need(given.size() == got.size(), given.size() + " batches were " + got.size());
        long plain = 0;
        long plainLost = 0;
        for (int number = 0; number < given.size(); number++) {
            MutableRecordBatch was = given.get(number);
            MutableRecordBatch is = got.get(number);
            is.ensureValid();
            need(was.magic() == is.magic() && was.compressionType() == is.compressionType()
                    && was.timestampType() == is.timestampType() && was.lastOffset() == is.lastOffset()
                    && was.nextOffset() == is.nextOffset(), "fields of all formats");
            List<Record> left = new ArrayList<>();
            long gone = 0;
            long count = 0;
            for (Record record : was) {
                count++;
                if (Arrays.stream(lost).anyMatch(range -> range[0] <= record.offset() && record.offset() <= range[1])) {
                    gone++;
                } else {
                    left.add(record);
                }
            }
            if (was.magic() >= RecordBatch.MAGIC_VALUE_V2) {
                need(was.baseOffset() == is.baseOffset() && was.producerId() == is.producerId() && was.producerEpoch() == is.producerEpoch()
                        && was.baseSequence() == is.baseSequence() && was.lastSequence() == is.lastSequence()
                        && was.isTransactional() == is.isTransactional() && was.isControlBatch() == is.isControlBatch()
                        && was.partitionLeaderEpoch() == is.partitionLeaderEpoch(), "fields of version 2");
                need(is.countOrNull() == left.size(), "count");
                long latest = left.stream().mapToLong(Record::timestamp).max().orElse(RecordBatch.NO_TIMESTAMP);
                need(gone == 0 ? is.maxTimestamp() == was.maxTimestamp() : is.maxTimestamp() == latest, "maximum timestamp");
            }
            need(gone == 0 || was.magic() >= RecordBatch.MAGIC_VALUE_V2 && !was.isControlBatch(), "what may not be lost");
            int at = 0;
            for (Record record : is) {
                need(at < left.size() && same(left.get(at), record), "record " + at + ": " + record);
                record.ensureValid();
                at++;
            }
            need(at == left.size(), at + " records of " + left.size());
            if (was.isTransactional() && !was.isControlBatch()) {
                need(within(gone, count, millionths), "the bound of a transaction's batch");
            } else if (!was.isControlBatch()) {
                plain += count;
                plainLost += gone;
            }
            counts[0]++;
            counts[1] += gone > 0 && was.compressionType() != CompressionType.NONE ? 1 : 0;
            counts[2] += count;
            counts[3] += gone;
        }
        need(within(plainLost, plain, millionths), "the bound");
    }

    private static boolean within(long lost, long all, int millionths) {
        return lost * MILLION <= all * (MILLION - millionths);
    }

    private static boolean same(Record was, Record is) {
        return was.offset() == is.offset() && was.sequence() == is.sequence() && was.timestamp() == is.timestamp()
                && Objects.equals(was.key(), is.key()) && Objects.equals(was.value(), is.value())
                && Arrays.equals(was.headers(), is.headers());
    }

    private static List<MutableRecordBatch> list(byte[] bytes) {
        List<MutableRecordBatch> batches = new ArrayList<>();
        MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().forEach(batches::add);
        return batches;
    }

    private static void need(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
