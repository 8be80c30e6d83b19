// A management library that says of the mock driver's device what a test wants it to.

#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };

// What holds the clocks back, as the library's bits; the device has no sensor of power.
unsigned long long mock_reasons;
static int device;

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle) {
    *handle = &device;
    return strcmp(bus, "0000:0a:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetClockInfo(void *handle, int domain, unsigned *megahertz) {
    *megahertz = domain == CLOCK_SM ? 1980 : domain == CLOCK_MEMORY ? 3201 : 0;
    return handle == &device && *megahertz ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    *celsius = 41;
    return handle == &device && sensor == 0 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    (void)handle, (void)milliwatts;
    return NOT_SUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    *reasons = mock_reasons;
    return handle == &device ? SUCCESS : INVALID_ARGUMENT;
}
