import java.util.Arrays;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Sums over the records of a topic, with state and checkpoints: how many records there were, and of each column that is
 * asked for the sum and the sum of squares. A line for each record says what they came to with it.
 *
 * <p>Usage: Means BOOTSTRAP[;BOOTSTRAP...] TOPIC[,TOPIC...] bounded|streaming CHECKPOINTS CHECKPOINT DELAY COLUMN...
 * Of several BOOTSTRAPs each is for one TOPIC, which a source of its own reads. CHECKPOINT is where it goes on, or `-`. DELAY is
 * how many microseconds each record takes. A COLUMN is the number of a field of comma-separated values, `4`; or a condition about
 * one, which counts as 1 or 0: `9=cash`, `6>1000`. The property `parallelism` is how many subtasks read by one BOOTSTRAP.
 */
public class Means {
    public static void main(String[] arguments) throws Exception {
        String[] columns = Arrays.copyOfRange(arguments, 6, arguments.length);
        long delay = Long.parseLong(arguments[5]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "300ms");
        settings.setString("execution.checkpointing.dir", arguments[3]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (!arguments[4].equals("-")) {
            settings.setString("execution.state-recovery.path", arguments[4]);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(Integer.getInteger("parallelism", 2));
        String[] bootstraps = arguments[0].split(";"), topics = arguments[1].split(",");
        DataStream<double[]> read = null;
        for (int each = 0; each < bootstraps.length; each++) {
            boolean several = bootstraps.length > 1;
            var source = KafkaSource.<String>builder()
                .setBootstrapServers(bootstraps[each])
                .setTopics(several ? new String[] {topics[each]} : topics)
                .setGroupId("flink-" + arguments[1])
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setProperty("check.crcs", "true")
                .setValueOnlyDeserializer(new SimpleStringSchema());
            if (arguments[2].equals("bounded")) {
                source.setBounded(OffsetsInitializer.latest());
            }
            int subtasks = several ? 1 : environment.getParallelism();
            var part = environment.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "topic")
                .uid(each == 0 ? "topic" : "topic " + each)
                .setParallelism(subtasks)
                .map(line -> {
                    if (delay > 0) {
                        Thread.sleep(delay / 1000, (int) (delay % 1000) * 1000);
                    }
                    return values(line, columns);
                })
                .returns(double[].class)
                .setParallelism(subtasks);
            read = each == 0 ? part : read.union(part);
        }
        read
            .keyBy(any -> 0, Types.INT)
            .process(new Sums(columns.length))
            .uid("sums")
            .setParallelism(1)
            .print()
            .setParallelism(1);
        environment.execute("means");
    }

    static double[] values(String line, String[] columns) {
        String[] fields = line.split(",", -1);
        double[] values = new double[columns.length];
        for (int each = 0; each < columns.length; each++) {
            String column = columns[each];
            int sign = Math.max(column.indexOf('='), column.indexOf('>'));
            if (sign < 0) {
                values[each] = Double.parseDouble(fields[Integer.parseInt(column)]);
                continue;
            }
            String field = fields[Integer.parseInt(column.substring(0, sign))], other = column.substring(sign + 1);
            boolean holds = column.charAt(sign) == '='
                ? field.equals(other)
                : Double.parseDouble(field) > Double.parseDouble(other);
            values[each] = holds ? 1 : 0;
        }
        return values;
    }

    static class Sums extends KeyedProcessFunction<Integer, double[], String> {
        private final int columns;
        private transient ValueState<double[]> sums;

        Sums(int columns) {
            this.columns = columns;
        }

        @Override
        public void open(OpenContext context) {
            sums = getRuntimeContext().getState(new ValueStateDescriptor<>("sums", double[].class));
        }

        @Override
        public void processElement(double[] values, Context context, Collector<String> output) throws Exception {
            double[] known = sums.value() == null ? new double[1 + 2 * columns] : sums.value();
            known[0] += 1;
            for (int column = 0; column < columns; column++) {
                known[1 + 2 * column] += values[column];
                known[2 + 2 * column] += values[column] * values[column];
            }
            sums.update(known);
            output.collect(Arrays.toString(known));
        }
    }
}
