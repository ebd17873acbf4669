/* The floor of `stentor bench call`: one round trip to a server that answers the same bytes to
 * everybody, by the same system calls as stentor-call and nothing else.
 *
 *   floor u PATH FILE       by Unix socket, the descriptor of FILE goes along
 *   floor t PORT FILE       by TCP to 127.0.0.1, the first 64 KiB of FILE go along
 *   floor                   nothing at all
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char request[160 + 65536];

int main(int argc, char **argv)
{
    struct stat about;
    char answer[512];
    size_t length = 160;
    int file, server, one = 1;
    if (argc != 4)
        return 0;
    file = open(argv[3], O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about))
        return 2;
    if (argv[1][0] == 'u') {
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        union {
            struct cmsghdr head;
            char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec piece = { request, length };
        struct msghdr message = { 0 };
        strncpy(to.sun_path, argv[2], sizeof to.sun_path - 1);
        server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (server < 0 || connect(server, (struct sockaddr *) &to, sizeof to))
            return 3;
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &file, sizeof file);
        if (sendmsg(server, &message, MSG_NOSIGNAL) != (ssize_t) length)
            return 4;
    } else {
        struct sockaddr_in to = { .sin_family = AF_INET };
        ssize_t head = pread(file, request + length, 65536, 0);
        to.sin_port = htons((unsigned short) atoi(argv[2]));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (head < 0 || server < 0 || connect(server, (struct sockaddr *) &to, sizeof to))
            return 3;
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        length += (size_t) head;
        if (send(server, request, length, MSG_NOSIGNAL) != (ssize_t) length)
            return 4;
    }
    return read(server, answer, sizeof answer) > 0 ? 0 : 5;
}
