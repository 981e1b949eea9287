/* Pliant's connections for C.
 *
 * A node is a socket with a thread of its own; a stream is an encrypted byte stream both ways; a bundle has many streams
 * that share one flow. Calls wait. A node and a bundle may be used by several threads, a stream by one that sends and one
 * that receives. Calls return a negative pliant_error on
 * failure, or NULL; pliant_last_error() tells in words what failed last in this thread.
 */
#ifndef PLIANT_H
#define PLIANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pliant_node pliant_node;
typedef struct pliant_stream pliant_stream;
typedef struct pliant_bundle pliant_bundle;

typedef enum pliant_error {
    PLIANT_INVALID = -1,  /* an argument, a key file, a contract that the transport does not honour */
    PLIANT_REFUSED = -2,  /* the peer does not take the key, or the connection */
    PLIANT_TIMED_OUT = -3,/* no answer, or silence for 30 seconds */
    PLIANT_RESET = -4,    /* the peer has closed or forgotten the connection */
    PLIANT_FAILED = -5    /* the machine */
} pliant_error;

/* How far an application's traffic may bend. */
typedef struct pliant_contract {
    double min_share;     /* least share of the fair rate that a stream keeps, in [0, 1]; 1 does not give way */
    double weight;        /* weight against other streams, above 0, of the transport weighted-fair; others: 1 */
    uint64_t min_rate;    /* least bits of payload per second under bounded, beside a min_share below 1; 0 promises none */
    uint64_t max_rate;    /* greatest bits per second on the wire; 0 bounds none */
} pliant_contract;

typedef struct pliant_report {
    uint64_t bytes_sent;       /* payload, retransmissions included */
    uint64_t retransmissions;  /* packets */
    uint64_t timeouts;
    uint64_t marks;            /* acknowledgements that echoed congestion */
    uint64_t low_bytes;        /* payload sent while giving way */
    int64_t late_ms;           /* how late what was announced will be; -1 while that is not known, INT64_MAX: nothing moves */
} pliant_report;

/* A node bound to address, "IP:PORT", port 0 for any. key_file is one of `pliant keygen`, or NULL for no protection,
 * which is allowed on loopback only. transport is NULL for "dctcp" or a name that `pliant send --transport` knows, of one
 * with a window. contract may be NULL: then nothing bends. accepts: whether others may connect. */
pliant_node *pliant_node_new(const char *address, const char *key_file, const char *transport,
                             const pliant_contract *contract, int accepts);

/* The node's port. */
int pliant_node_port(const pliant_node *node);

/* Greatest rates of each stream and bundle by this host's time of day, written as for `pliant send --schedule`:
 * "22:00-04:00=none,04:00-06:00=none+min-share=1,08:00-18:00=20Mbit/s". At other times the contract's max_rate and min_share count.
 * Streams and bundles that run change with it. NULL or "" removes it. 0 or an error. */
int pliant_node_set_schedule(pliant_node *node, const char *schedule);

/* Frees a node. It waits until streams that were closed before have told their peers, so that a program may end at once;
 * streams that were not live on. */
void pliant_node_free(pliant_node *node);

pliant_stream *pliant_connect(pliant_node *node, const char *address);

/* Waits for the next stream that a peer opens. Fails at a node that was made with accepts 0, which nobody can call. */
pliant_stream *pliant_accept(pliant_node *node);

/* Sends all of the bytes; 0 or an error. */
int pliant_send(pliant_stream *stream, const void *bytes, size_t count);

/* Receives up to so many bytes: how many, 0 at the end, or an error. */
ptrdiff_t pliant_recv(pliant_stream *stream, void *bytes, size_t count);

/* Changes weight, min_rate and max_rate while the stream runs, and min_share of the transport bounded. */
int pliant_set_contract(pliant_stream *stream, const pliant_contract *contract);

/* Under "bounded" with a min_share below 1: announces so many bytes beyond those sent so far, all of which must be across in
 * so many milliseconds. The stream keeps the rate that this needs, as long as a normal flow has it, and gives way beyond it.
 * If it will be late, the report says so as soon as that is known, and the stream gives way no more. That includes bytes that
 * are sent too late. A new announcement replaces the one before; PLIANT_NEVER removes it. 0 or an error. */
#define PLIANT_NEVER UINT64_MAX
int pliant_set_done_by(pliant_stream *stream, uint64_t bytes, uint64_t milliseconds);

int pliant_get_report(const pliant_stream *stream, pliant_report *report);

/* Ends what goes out and waits until the peer has all of it; receiving goes on. 0 or an error. */
int pliant_finish(pliant_stream *stream);

/* Closes and frees a stream. */
void pliant_close(pliant_stream *stream);

/* Calls address for a bundle: streams to one peer that share one flow, so that all of them together take what one stream
 * takes. contract is that of their sum, and NULL stands for the node's. */
pliant_bundle *pliant_bundle_connect(pliant_node *node, const char *address, const pliant_contract *contract);

/* Waits for the next bundle that a peer opens. This side sends under the node's contract. Fails as pliant_accept does. */
pliant_bundle *pliant_bundle_accept(pliant_node *node);

/* Opens a stream of the bundle, without waiting. It is used and closed as any other. A peer takes 1024 at a time. Closed
 * before pliant_finish it is cut off, and the peer hears PLIANT_RESET, unless it was read to its end and nothing was sent.
 * It has no contract of its own, and its report is the bundle's. */
pliant_stream *pliant_bundle_open_stream(pliant_bundle *bundle);

/* Waits for the next stream that the peer opens in the bundle. */
pliant_stream *pliant_bundle_accept_stream(pliant_bundle *bundle);

/* Changes the contract of all streams together, as pliant_set_contract does of one. */
int pliant_bundle_set_contract(pliant_bundle *bundle, const pliant_contract *contract);

/* Announces bytes of all streams of this side together, as pliant_set_done_by does of one. */
int pliant_bundle_set_done_by(pliant_bundle *bundle, uint64_t bytes, uint64_t milliseconds);

/* The counts of all streams together. */
int pliant_bundle_get_report(const pliant_bundle *bundle, pliant_report *report);

/* Ends the bundle at once: its streams fail with PLIANT_RESET, at both sides, but for what has come. 0 or an error. */
int pliant_bundle_close(pliant_bundle *bundle);

/* Frees a bundle; its streams live on. It ends with the last of them, once the peer has what was finished. */
void pliant_bundle_free(pliant_bundle *bundle);

/* What failed last in this thread; valid until the next failure. Never NULL. */
const char *pliant_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
