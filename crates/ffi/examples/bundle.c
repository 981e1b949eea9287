/* Two nodes in one process and a bundle between them: 64 streams in one flow that gives way to others. Each stream carries
 * 20 kB, which the other side sends back. With a key file as argument, encrypted; without, plain on loopback.
 *
 * After `make install-c`, in the top folder of the repository (docs/c.md):
 *
 *   cc crates/ffi/examples/bundle.c $(pkg-config --cflags --libs pliant) -pthread -o bundle
 */
#include <pliant.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 64, BYTES = 20000, PIECE = 3000 };

static void *die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, pliant_last_error());
    exit(1);
}

static void *echo_stream(void *stream) {
    char piece[PIECE];
    ptrdiff_t count;
    while ((count = pliant_recv(stream, piece, sizeof piece)) > 0)
        if (pliant_send(stream, piece, (size_t)count) < 0) die("send back");
    if (count < 0) die("receive");
    if (pliant_finish(stream) < 0) die("finish");
    pliant_close(stream);
    return NULL;
}

static void *echo(void *node) {
    pliant_bundle *bundle = pliant_bundle_accept(node);
    if (!bundle) die("accept a bundle");
    pthread_t streams[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        pliant_stream *stream = pliant_bundle_accept_stream(bundle);
        if (!stream) die("accept a stream");
        pthread_create(&streams[i], NULL, echo_stream, stream);
    }
    for (int i = 0; i < STREAMS; i++) pthread_join(streams[i], NULL);
    /* The caller closes the bundle: whoever waits for a stream hears of it. */
    if (pliant_bundle_accept_stream(bundle)) exit(1);
    pliant_bundle_free(bundle);
    return NULL;
}

int main(int count, char **arguments) {
    const char *key = count > 1 ? arguments[1] : NULL;
    pliant_contract contract = {.min_share = 0.5, .weight = 1};
    pliant_node *called = pliant_node_new("127.0.0.1:0", key, "bounded", NULL, 1);
    pliant_node *caller = pliant_node_new("127.0.0.1:0", key, "bounded", NULL, 0);
    if (!called || !caller) die("node");

    pthread_t echoing;
    pthread_create(&echoing, NULL, echo, called);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", pliant_node_port(called));
    pliant_bundle *bundle = pliant_bundle_connect(caller, address, &contract);
    if (!bundle) die("connect");
    contract.min_share = 0.25;
    if (pliant_bundle_set_contract(bundle, &contract) < 0) die("set contract");
    contract.weight = 2;
    if (pliant_bundle_set_contract(bundle, &contract) != PLIANT_INVALID) return 1;

    /* All that the streams carry there must be across within a minute, and by day with no more than 1 Gbit/s. */
    if (pliant_bundle_set_done_by(bundle, (uint64_t)STREAMS * BYTES, 60000) < 0) die("set done by");
    if (pliant_node_set_schedule(caller, "08:00-18:00=1Gbit/s") < 0) die("set schedule");
    if (pliant_node_set_schedule(caller, "by day") != PLIANT_INVALID) return 1;

    pliant_stream *streams[STREAMS];
    static char sent[BYTES], got[BYTES];
    for (int i = 0; i < STREAMS; i++) {
        if (!(streams[i] = pliant_bundle_open_stream(bundle))) die("open");
        /* The contract is the bundle's. */
        if (pliant_set_contract(streams[i], &contract) != PLIANT_INVALID) return 1;
        memset(sent, i, sizeof sent);
        if (pliant_send(streams[i], sent, sizeof sent) < 0 || pliant_finish(streams[i]) < 0) die("send");
    }
    int received = 0;
    for (int i = 0; i < STREAMS; i++) {
        memset(sent, i, sizeof sent);
        size_t here = 0;
        ptrdiff_t more;
        while ((more = pliant_recv(streams[i], got + here, sizeof got - here)) > 0) here += (size_t)more;
        if (more < 0) die("receive");
        if (here != sizeof got || memcmp(got, sent, sizeof got)) return 1;
        received += (int)here;
    }
    pliant_report report;
    if (pliant_bundle_get_report(bundle, &report) < 0) die("report");

    /* A bundle that is closed ends the streams that are left. */
    if (pliant_bundle_close(bundle) < 0) die("close");
    if (pliant_send(streams[0], "x", 1) != PLIANT_RESET || pliant_bundle_open_stream(bundle)) return 1;
    pthread_join(echoing, NULL);
    for (int i = 0; i < STREAMS; i++) pliant_close(streams[i]);
    pliant_bundle_free(bundle);
    pliant_node_free(caller);
    pliant_node_free(called);
    printf("%d streams, %d bytes there and back\n", STREAMS, received);
    return report.bytes_sent >= STREAMS * BYTES ? 0 : 1;
}
