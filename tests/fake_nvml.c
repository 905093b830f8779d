/* A stand-in for libnvidia-ml.so.1 that answers what the file $FAKE_NVML says: lines "KEY I J VALUE", I and J a number
 * or *, VALUE the rest of the line, the last line that fits wins. What is not in the file is not supported (code 3).
 * "!FUNCTION I J CODE" makes a function fail, "~FUNCTION I J MILLISECONDS" makes it slow. Codes are nvmlReturn_t's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GPUS = 16, MAX_LINES = 8192, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
typedef struct { int i; } Gpu;
typedef unsigned long long U64;
static Gpu gpus[MAX_GPUS];
static struct { char key[64], value[128]; int i, j; } lines[MAX_LINES];
static int count = -1;

static int place(const char *word) { return *word == '*' ? -1 : atoi(word); }
static void load(void) {
    FILE *file = getenv("FAKE_NVML") ? fopen(getenv("FAKE_NVML"), "r") : NULL;
    char line[512], i[16], j[16];
    count = 0;
    for (int n = 0; n < MAX_GPUS; n++) gpus[n].i = n;
    while (file && fgets(line, sizeof line, file) && count < MAX_LINES)
        if (sscanf(line, "%63s %15s %15s %127[^\n]", lines[count].key, i, j, lines[count].value) == 4) {
            lines[count].i = place(i);
            lines[count++].j = place(j);
        }
    if (file) fclose(file);
}
static const char *find(const char *key, int i, int j) {
    if (count < 0) load();
    for (int n = count - 1; n >= 0; n--)
        if (!strcmp(lines[n].key, key) && (lines[n].i < 0 || lines[n].i == i) && (lines[n].j < 0 || lines[n].j == j))
            return lines[n].value;
    return NULL;
}
static int number(const char *key, int i, int j, U64 *value) {
    const char *text = find(key, i, j);
    if (!text) return NOT_SUPPORTED;
    *value = strtoull(text, NULL, 0);
    return 0;
}
static int enter(const char *function, int i, int j) {
    char key[80];
    U64 value = 0;
    snprintf(key, sizeof key, "~%s", function);
    if (!number(key, i, j, &value)) usleep((useconds_t)value * 1000);
    snprintf(key, sizeof key, "!%s", function);
    return number(key, i, j, &value) ? 0 : (int)value;
}
#define ENTER(i, j) do { int code = enter(__func__, i, j); if (code) return code; } while (0)
static int text(char *out, unsigned size, const char *key, int i) {
    const char *found = find(key, i, -1);
    if (!found) return NOT_SUPPORTED;
    if (strlen(found) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, found);
    return 0;
}
#define TEXT(function, key) int function(Gpu *g, char *out, unsigned n) { ENTER(g->i, -1); return text(out, n, key, g->i); }
#define UINT(function, key) int function(Gpu *g, unsigned *out) \
    { U64 v; ENTER(g->i, -1); int code = number(key, g->i, -1, &v); if (!code) *out = (unsigned)v; return code; }
#define WIDE(function, key) int function(Gpu *g, U64 *out) { ENTER(g->i, -1); return number(key, g->i, -1, out); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(-1, -1); return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case 3: return "Not Supported"; case 4: return "Insufficient Permissions"; case 9: return "Driver Not Loaded";
    case 12: return "Library Not Found"; case 13: return "Function Not Found"; case 15: return "GPU is lost";
    case 16: return "GPU requires reset"; case 18: return "Driver/library version mismatch";
    }
    return "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *out, unsigned n) { ENTER(-1, -1); return text(out, n, "driver", -1); }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { ENTER(-1, -1); return text(out, n, "nvml", -1); }
int nvmlDeviceGetCount_v2(unsigned *n) { U64 v = 0; ENTER(-1, -1); number("gpus", -1, -1, &v); *n = (unsigned)v; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Gpu **out) {
    U64 n = 0;
    ENTER((int)i, -1);
    number("gpus", -1, -1, &n);
    if (i >= n || i >= MAX_GPUS) return INVALID_ARGUMENT;
    *out = &gpus[i];
    return 0;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
static int pci(Pci *out, const char *bdf, U64 id) {
    memset(out, 0, sizeof *out);
    if (sscanf(bdf, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return NOT_SUPPORTED;
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus & 0xff, out->device & 0xff);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    out->id = (unsigned)id;
    return 0;
}
int nvmlDeviceGetPciInfo_v3(Gpu *g, Pci *out) {
    U64 id = 0;
    ENTER(g->i, -1);
    number("pci_id", g->i, -1, &id);
    return pci(out, find("bdf", g->i, -1) ? find("bdf", g->i, -1) : "", id);
}
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
UINT(nvmlDeviceGetMinorNumber, "minor")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "gen")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "gen_max")
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, "gen_device_max")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "width")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "width_max")
UINT(nvmlDeviceGetPerformanceState, "pstate")
UINT(nvmlDeviceGetPcieReplayCounter, "replays")
UINT(nvmlDeviceGetPersistenceMode, "persistence")
UINT(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
UINT(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
UINT(nvmlDeviceGetVirtualizationMode, "virtualization")
WIDE(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons")
int nvmlDeviceGetApplicationsClock(Gpu *g, unsigned type, unsigned *out) {
    U64 v;
    ENTER(g->i, (int)type);
    int code = number("application_clock_mhz", g->i, (int)type, &v);
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetTotalEccErrors(Gpu *g, unsigned type, unsigned kind, U64 *out) {
    (void)kind;
    ENTER(g->i, (int)type);
    return number("ecc_uncorrectable", g->i, -1, out);
}
static int pair_of(const char *key, Gpu *g, unsigned *now, unsigned *pending) {
    U64 v;
    int code = number(key, g->i, -1, &v);
    if (!code) *now = *pending = (unsigned)v;
    return code;
}
int nvmlDeviceGetMigMode(Gpu *g, unsigned *now, unsigned *next) { ENTER(g->i, -1); return pair_of("mig", g, now, next); }
int nvmlDeviceGetEccMode(Gpu *g, unsigned *now, unsigned *next) { ENTER(g->i, -1); return pair_of("ecc", g, now, next); }
static int memory(const char *key, Gpu *g, U64 *out) { out[1] = out[2] = 0; return number(key, g->i, -1, out); }
int nvmlDeviceGetMemoryInfo(Gpu *g, U64 *out) { ENTER(g->i, -1); return memory("memory", g, out); }
int nvmlDeviceGetBAR1MemoryInfo(Gpu *g, U64 *out) { ENTER(g->i, -1); return memory("bar1", g, out); }
int nvmlDeviceGetUtilizationRates(Gpu *g, unsigned *out) { ENTER(g->i, -1); out[0] = out[1] = 0; return 0; }
int nvmlDeviceGetRemappedRows(Gpu *g, unsigned *good, unsigned *bad, unsigned *pending, unsigned *failed) {
    U64 p = 0, f = 0;
    ENTER(g->i, -1);
    if (number("remap_pending", g->i, -1, &p) || number("remap_failed", g->i, -1, &f)) return NOT_SUPPORTED;
    *good = *bad = 0, *pending = (unsigned)p, *failed = (unsigned)f;
    return 0;
}
typedef struct { unsigned version; uint8_t uuid[16]; int status; uint32_t clique; uint8_t state; uint32_t health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(Gpu *g, Fabric *out) {
    U64 state = 0, status = 0, health = 0;
    ENTER(g->i, -1);
    if (number("fabric_state", g->i, -1, &state)) return NOT_SUPPORTED;
    number("fabric_status", g->i, -1, &status);
    number("fabric_health", g->i, -1, &health);
    out->state = (uint8_t)state, out->status = (int)status, out->health = (uint32_t)health;
    return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(Gpu *a, Gpu *b, unsigned *out) {
    U64 v;
    ENTER(a->i, b->i);
    int code = number("ancestor", a->i, b->i, &v);
    if (!code) *out = (unsigned)v;
    return code;
}
int nvmlDeviceGetP2PStatus(Gpu *a, Gpu *b, unsigned capability, unsigned *out) {
    static const char *keys[] = {"p2p_read", "p2p_write", "p2p_nvlink", "p2p_atomics", "p2p_pcie"};
    U64 v;
    ENTER(a->i, b->i);
    int code = capability > 4 ? INVALID_ARGUMENT : number(keys[capability], a->i, b->i, &v);
    if (!code) *out = (unsigned)v;
    return code;
}
static int link_of(const char *key, Gpu *g, unsigned link, U64 *out) {
    U64 links = 0;
    if (number("nvlinks", g->i, -1, &links) || !links) return NOT_SUPPORTED;
    return link >= links ? INVALID_ARGUMENT : number(key, g->i, (int)link, out);
}
static int small(int code, U64 value, unsigned *out) { if (!code) *out = (unsigned)value; return code; }
int nvmlDeviceGetNvLinkState(Gpu *g, unsigned l, unsigned *out) { U64 v; ENTER(g->i, (int)l); int c = link_of("nvlink", g, l, &v); return small(c, v, out); }
int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu *g, unsigned l, unsigned *out) { U64 v; ENTER(g->i, (int)l); int c = link_of("remote_type", g, l, &v); return small(c, v, out); }
/* "crc_more I J N": each reading of the link's CRC errors (counter 2) finds N more. */
int nvmlDeviceGetNvLinkErrorCounter(Gpu *g, unsigned l, unsigned counter, U64 *out) {
    static U64 read[MAX_GPUS][64];
    U64 more = 0;
    ENTER(g->i, (int)l);
    int code = link_of("nvlink_errors", g, l, out);
    if (!code && counter == 2 && l < 64 && !number("crc_more", g->i, (int)l, &more)) *out += more * ++read[g->i][l];
    return code;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *g, unsigned l, Pci *out) {
    ENTER(g->i, (int)l);
    return pci(out, find("remote", g->i, (int)l) ? find("remote", g->i, (int)l) : "", 0);
}
typedef struct { uint32_t field, scope; int64_t time, latency; uint32_t type; int32_t code; union { unsigned u; U64 ull; } v; } Field;
int nvmlDeviceGetFieldValues(Gpu *g, int n, Field *f) {
    ENTER(g->i, -1);
    for (int k = 0; k < n; k++) {
        U64 v = 0;
        f[k].type = 3;
        f[k].code = f[k].field == 164 ? link_of("mb_per_s", g, f[k].scope, &v)
                  : f[k].field == 230 ? number("recovery_action", g->i, -1, &v) : NOT_SUPPORTED;
        f[k].v.ull = v;
    }
    return 0;
}
