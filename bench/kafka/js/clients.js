// kafkajs as a client of Kafka, for bench/kafka/clients.py.
//
// Usage: node clients.js kafkajs produce BOOTSTRAP TOPIC CODEC
//        node clients.js kafkajs consume BOOTSTRAP TOPIC SECONDS END...
//
// Input and output are those of go/main.go. `position` is what the client has committed for its group.
"use strict"

const { Kafka, CompressionTypes, Partitioners, logLevel } = require("kafkajs")

const PARTITIONS = 3
const PATIENCE = 30_000
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

async function produce(kafka, topic, codec) {
  const text = require("fs").readFileSync(0, "latin1")
  const values = text.split("\n").filter((line) => line).map((line) => Buffer.from(line, "base64"))
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  for (let start = 0; start < values.length; start += 3000) {
    const messages = values.slice(start, start + 3000).map((value, index) => ({ value, partition: (start + index) % PARTITIONS }))
    await producer.send({ topic, messages, compression: CODECS[codec], acks: -1 })
  }
  await producer.disconnect()
}

// The commit at `disconnect` is lost if the group's coordinator moves to another broker just then. Whoever needs it tries again.
async function commit(consumer, offsets) {
  if (!offsets.length) return
  for (const ends = Date.now() + PATIENCE; ; await new Promise((resolve) => setTimeout(resolve, 500))) {
    try {
      return await consumer.commitOffsets(offsets)
    } catch (error) {
      if (Date.now() > ends) throw error
    }
  }
}

async function consume(kafka, topic, seconds, ends) {
  const groupId = `${topic}-${process.pid}-${Date.now()}`
  const consumer = kafka.consumer({ groupId })
  const next = ends.map(() => 0)
  const lines = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    setTimeout(resolve, seconds * 1000)
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
    consumer.run({
      eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
        for (const { offset, value } of batch.messages) {
          lines.push(`${batch.partition} ${offset} ${value.toString("base64")}`)
          next[batch.partition] = Number(offset) + 1
          resolveOffset(offset)
        }
        await heartbeat()
        if (next.every((at, partition) => at >= ends[partition])) resolve()
      },
    }).catch(reject)
  })
  // Where the last records were left out, the client itself knows better how far it is.
  const whole = next.map((at, partition) => ({ topic, partition, offset: String(at) }))
  await commit(consumer, whole.filter(({ offset, partition }) => Number(offset) >= ends[partition]))
  await consumer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  await admin.disconnect()
  for (const { partition, offset } of partitions) lines.push(`position ${partition} ${offset}`)
  process.stdout.write(lines.join("\n") + "\n", () => process.exit(0))
}

async function main([name, verb, bootstrap, topic, ...more]) {
  if (name !== "kafkajs") throw new Error(`there is no client \`${name}\``)
  const kafka = new Kafka({ clientId: "pliant", brokers: [bootstrap], logLevel: logLevel.NOTHING })
  if (verb === "produce") return produce(kafka, topic, more[0])
  if (verb === "consume") return consume(kafka, topic, Number(more[0]), more.slice(1).map(Number))
  throw new Error(`\`${verb}\` is neither produce nor consume`)
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
