/* Two nodes in one process: one sends a file's worth of bytes, the other sends each of them back. With a key file as
 * argument, encrypted; without, plain on loopback.
 *
 * After `make install-c`, in the top folder of the repository (docs/c.md):
 *
 *   cc crates/ffi/examples/echo.c $(pkg-config --cflags --libs pliant) -pthread -o echo
 */
#include <pliant.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 2000000, PIECE = 10000 };

static void *die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, pliant_last_error());
    exit(1);
}

static void *echo(void *argument) {
    pliant_stream *stream = pliant_accept(argument);
    if (!stream) die("accept");
    char piece[PIECE];
    ptrdiff_t count;
    while ((count = pliant_recv(stream, piece, sizeof piece)) > 0)
        if (pliant_send(stream, piece, (size_t)count) < 0) die("send back");
    if (count < 0) die("receive");
    if (pliant_finish(stream) < 0) die("finish");
    pliant_close(stream);
    return NULL;
}

static void *sending(void *argument) {
    char piece[PIECE];
    for (int sent = 0; sent < BYTES; sent += PIECE) {
        memset(piece, sent / PIECE, sizeof piece);
        if (pliant_send(argument, piece, sizeof piece) < 0) die("send");
    }
    if (pliant_finish(argument) < 0) die("finish");
    return NULL;
}

int main(int count, char **arguments) {
    const char *key = count > 1 ? arguments[1] : NULL;
    pliant_contract contract = {.min_share = 1, .weight = 2};
    pliant_node *called = pliant_node_new("127.0.0.1:0", key, "weighted-fair", &contract, 1);
    pliant_node *caller = pliant_node_new("127.0.0.1:0", key, "weighted-fair", &contract, 0);
    if (!called || !caller) die("node");

    /* Mistakes have a code and a reason. */
    if (pliant_node_new("nowhere", NULL, NULL, NULL, 0) || !strstr(pliant_last_error(), "nowhere")) return 1;
    if (pliant_connect(NULL, "127.0.0.1:1") || pliant_send(NULL, "x", 1) != PLIANT_INVALID) return 1;

    pthread_t echoing, writing;
    pthread_create(&echoing, NULL, echo, called);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", pliant_node_port(called));
    pliant_stream *stream = pliant_connect(caller, address);
    if (!stream) die("connect");
    contract.weight = 4;
    if (pliant_set_contract(stream, &contract) < 0) die("set contract");
    contract.min_share = 0.5;
    if (pliant_set_contract(stream, &contract) != PLIANT_INVALID) return 1;

    pthread_create(&writing, NULL, sending, stream);
    int received = 0;
    ptrdiff_t got;
    unsigned char piece[PIECE];
    while ((got = pliant_recv(stream, piece, sizeof piece)) > 0)
        for (ptrdiff_t i = 0; i < got; i++, received++)
            if (piece[i] != (unsigned char)(received / PIECE)) {
                fprintf(stderr, "byte %d came back as %d\n", received, piece[i]);
                return 1;
            }
    if (got < 0) die("receive");
    pthread_join(writing, NULL);
    pthread_join(echoing, NULL);
    pliant_report report;
    if (pliant_get_report(stream, &report) < 0) die("report");
    pliant_close(stream);
    pliant_node_free(caller);
    pliant_node_free(called);
    printf("%d bytes there and back\n", received);
    return received == BYTES && report.bytes_sent >= BYTES ? 0 : 1;
}
