/* What a program may expect of its TCP sockets, with and without the preload library.
 *
 * Usage: semantics ECHO RESET CLOSED ELSEWHERE    ports on 127.0.0.1; rules send all but the last through a daemon
 *        semantics inherited DESCRIPTOR PORT      begun by itself: the descriptor leads to the port
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int holds, int line, const char *what) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s (errno %d, %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}
#define EXPECT(what) expect((what), __LINE__, #what)

static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    EXPECT(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
    return address;
}

static int tcp(int flags) {
    int descriptor = socket(AF_INET, SOCK_STREAM | flags, 0);
    EXPECT(descriptor >= 0);
    return descriptor;
}

static int connect_to(int descriptor, const char *ip, int port) {
    struct sockaddr_in address = at(ip, port);
    return connect(descriptor, (struct sockaddr *)&address, sizeof address);
}

static int option(int descriptor, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT(getsockopt(descriptor, level, name, &value, &length) == 0 && length == sizeof value);
    return value;
}

static int peer_port(int descriptor) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getpeername(descriptor, (struct sockaddr *)&address, &length) != 0)
        return -1;
    EXPECT(length == sizeof address && address.sin_family == AF_INET);
    EXPECT(address.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    return ntohs(address.sin_port);
}

static void ping(int descriptor) {
    char back[4];
    EXPECT(send(descriptor, "ping", 4, MSG_NOSIGNAL) == 4);
    EXPECT(recv(descriptor, back, 4, MSG_WAITALL) == 4 && memcmp(back, "ping", 4) == 0);
}

/* Ends its half, and reads what comes after that: the service says `end`. */
static void end(int descriptor) {
    char back[4];
    EXPECT(shutdown(descriptor, SHUT_WR) == 0);
    EXPECT(recv(descriptor, back, 4, MSG_WAITALL) == 3 && memcmp(back, "end", 3) == 0);
    EXPECT(recv(descriptor, back, 4, 0) == 0);
    EXPECT(close(descriptor) == 0);
}

static void waits_for(int descriptor, short events) {
    struct pollfd one = {.fd = descriptor, .events = events};
    EXPECT(poll(&one, 1, 30000) == 1);
}

static void a_connection_is_as_of_tcp(int port) {
    int descriptor = tcp(0), one = 1, large = 4 << 20;
    EXPECT(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0);
    EXPECT(peer_port(descriptor) == port);
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    EXPECT(getsockname(descriptor, (struct sockaddr *)&own, &length) == 0 && length == sizeof own);
    EXPECT(own.sin_family == AF_INET && own.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && own.sin_port != 0);
    EXPECT(option(descriptor, SOL_SOCKET, SO_ERROR) == 0);
    EXPECT(option(descriptor, SOL_SOCKET, SO_DOMAIN) == AF_INET);
    EXPECT(option(descriptor, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    EXPECT(option(descriptor, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
    EXPECT(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    EXPECT(option(descriptor, IPPROTO_TCP, TCP_NODELAY) == 1);
    EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &large, sizeof large) == 0);
    /* An address is cut where there is no room for it, and its whole length is told. */
    struct sockaddr_in cut = {.sin_family = 0, .sin_port = 0};
    length = sizeof cut.sin_family;
    EXPECT(getpeername(descriptor, (struct sockaddr *)&cut, &length) == 0 && length == sizeof cut);
    EXPECT(cut.sin_family == AF_INET && cut.sin_port == 0);
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == -1 && errno == EISCONN);
    ping(descriptor);
    end(descriptor);
}

static void a_connection_is_waited_for(int port) {
    int descriptor = tcp(SOCK_NONBLOCK), poller = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == -1 && errno == EINPROGRESS);
    EXPECT((fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = descriptor};
    EXPECT(epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) == 0);
    EXPECT(epoll_wait(poller, &event, 1, 30000) == 1 && event.events == EPOLLOUT);
    EXPECT(option(descriptor, SOL_SOCKET, SO_ERROR) == 0 && peer_port(descriptor) == port);
    EXPECT(send(descriptor, "x", 1, 0) == 1);
    /* An edge may tell only of room to write. */
    do
        EXPECT(epoll_wait(poller, &event, 1, 30000) == 1);
    while ((event.events & EPOLLIN) == 0);
    char back;
    EXPECT(recv(descriptor, &back, 1, 0) == 1 && back == 'x');
    EXPECT(recv(descriptor, &back, 1, 0) == -1 && errno == EAGAIN);
    EXPECT(shutdown(descriptor, SHUT_WR) == 0);
    do
        EXPECT(epoll_wait(poller, &event, 1, 30000) == 1);
    while ((event.events & EPOLLRDHUP) == 0);
    EXPECT(close(descriptor) == 0 && close(poller) == 0);
}

static void a_failure_is_told(const char *ip, int port, int error) {
    int blocking = tcp(0);
    EXPECT(connect_to(blocking, ip, port) == -1 && errno == error);
    EXPECT(close(blocking) == 0);
    for (int again = 0; again < 2; again++) {
        int descriptor = tcp(SOCK_NONBLOCK);
        /* TCP on loopback knows at once. */
        if (connect_to(descriptor, ip, port) == -1 && errno != EINPROGRESS) {
            EXPECT(errno == error);
        } else {
            waits_for(descriptor, POLLOUT);
            EXPECT(peer_port(descriptor) == -1 && errno == ENOTCONN);
            if (again) {
                EXPECT(connect_to(descriptor, ip, port) == -1 && errno == error);
            } else {
                EXPECT(option(descriptor, SOL_SOCKET, SO_ERROR) == error);
                /* It is told once. */
                EXPECT(option(descriptor, SOL_SOCKET, SO_ERROR) == 0);
            }
        }
        EXPECT(close(descriptor) == 0);
    }
}

static void a_failed_socket_connects_again(int closed, int port) {
    int descriptor = tcp(0);
    EXPECT(connect_to(descriptor, "127.0.0.1", closed) == -1 && errno == ECONNREFUSED);
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0);
    ping(descriptor);
    end(descriptor);
}

static void it_survives_fork_dup_and_exec(const char *self, int port) {
    int descriptor = tcp(0), status;
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0);
    pid_t child = fork();
    if (child == 0) {
        ping(descriptor);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    int second = dup(descriptor);
    EXPECT(second >= 0 && close(descriptor) == 0 && peer_port(second) == port);
    ping(second);
    child = fork();
    if (child == 0) {
        char number[12], service[12];
        snprintf(number, sizeof number, "%d", second);
        snprintf(service, sizeof service, "%d", port);
        execl(self, self, "inherited", number, service, NULL);
        _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    end(second);
    /* What is to be closed at exec is closed. */
    int private = tcp(SOCK_CLOEXEC);
    EXPECT(connect_to(private, "127.0.0.1", port) == 0);
    EXPECT((fcntl(private, F_GETFD) & FD_CLOEXEC) != 0);
    end(private);
}

static void nothing_is_left_open(int port) {
    int before = dup(0);
    EXPECT(close(before) == 0);
    for (int again = 0; again < 20; again++) {
        int descriptor = tcp(0);
        EXPECT(descriptor == before && connect_to(descriptor, "127.0.0.1", port) == 0);
        end(descriptor);
    }
}

static void ipv4_goes_by_sockets_of_ipv6(int port) {
    int descriptor = socket(AF_INET6, SOCK_STREAM, 0);
    if (descriptor < 0)
        return; /* a kernel without it */
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)}, found;
    EXPECT(inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr) == 1);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        EXPECT(errno == ENETUNREACH || errno == EADDRNOTAVAIL);
        return;
    }
    socklen_t length = sizeof found;
    EXPECT(getpeername(descriptor, (struct sockaddr *)&found, &length) == 0 && length == sizeof found);
    EXPECT(found.sin6_port == address.sin6_port && memcmp(&found.sin6_addr, &address.sin6_addr, 16) == 0);
    EXPECT(getsockname(descriptor, (struct sockaddr *)&found, &length) == 0 && found.sin6_family == AF_INET6);
    ping(descriptor);
    end(descriptor);
}

static void a_reset_is_a_reset(int port) {
    int descriptor = tcp(0);
    char back;
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0);
    EXPECT(send(descriptor, "x", 1, MSG_NOSIGNAL) == 1);
    EXPECT(recv(descriptor, &back, 1, 0) == -1 && errno == ECONNRESET);
    EXPECT(close(descriptor) == 0);
}

static void timeouts_stay(int port) {
    int descriptor = tcp(0);
    struct timeval patience = {.tv_usec = 1000}, none = {0}, found;
    socklen_t length = sizeof found;
    char back;
    EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0);
    EXPECT(getsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &found, &length) == 0 && found.tv_usec > 0);
    EXPECT(recv(descriptor, &back, 1, 0) == -1 && errno == EAGAIN);
    /* The service may take longer than that to answer. */
    EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
    end(descriptor);
}

static void all_else_is_left_alone(int port) {
    int descriptor = tcp(0);
    struct tcp_info info;
    socklen_t length = sizeof info;
    EXPECT(connect_to(descriptor, "127.0.0.1", port) == 0 && peer_port(descriptor) == port);
    EXPECT(getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_snd_mss > 0);
    ping(descriptor);
    end(descriptor);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(connect_to(datagrams, "127.0.0.1", port) == 0 && option(datagrams, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
    EXPECT(close(datagrams) == 0);
    EXPECT(connect_to(-1, "127.0.0.1", port) == -1 && errno == EBADF);
    EXPECT(getpeername(0, NULL, NULL) == -1 && (errno == ENOTSOCK || errno == EFAULT || errno == EBADF));
}

int main(int count, char **words) {
    if (count == 4 && strcmp(words[1], "inherited") == 0) {
        int descriptor = atoi(words[2]);
        EXPECT(peer_port(descriptor) == atoi(words[3]));
        ping(descriptor);
        return 0;
    }
    EXPECT(count == 5);
    int echo = atoi(words[1]), reset = atoi(words[2]), closed = atoi(words[3]), elsewhere = atoi(words[4]);
    a_connection_is_as_of_tcp(echo);
    a_connection_is_waited_for(echo);
    a_failure_is_told("127.0.0.1", closed, ECONNREFUSED);
    a_failure_is_told("255.255.255.255", 9, getenv("PLIANT_PRELOAD_SOCKET") ? EHOSTUNREACH : ENETUNREACH);
    a_failed_socket_connects_again(closed, echo);
    it_survives_fork_dup_and_exec(words[0], echo);
    nothing_is_left_open(echo);
    ipv4_goes_by_sockets_of_ipv6(echo);
    a_reset_is_a_reset(reset);
    timeouts_stay(echo);
    all_else_is_left_alone(elsewhere);
    puts("all as of TCP");
    return 0;
}
