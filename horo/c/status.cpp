#include "horo/c/status.h"

#include <exception>

namespace horo::c {
namespace {

thread_local std::string last_error;

horo_status keep(horo_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {  // too little memory for the text
    last_error.clear();
  }
  return status;
}

}  // namespace

horo_status keep_current_exception() noexcept {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    return keep(HORO_INVALID_ARGUMENT, error.what());
  } catch (const MismatchError& error) {
    return keep(HORO_MISMATCH, error.what());
  } catch (const SharedMemoryError& error) {
    return keep(HORO_SHARED_MEMORY_ERROR, error.what());
  } catch (const CommunicationError& error) {
    return keep(HORO_COMMUNICATION_ERROR, error.what());
  } catch (const DeviceError& error) {
    return keep(HORO_DEVICE_ERROR, error.what());
  } catch (const ShutdownError& error) {
    return keep(HORO_SHUT_DOWN, error.what());
  } catch (const std::exception& error) {
    return keep(HORO_ERROR, error.what());
  } catch (...) {
    return keep(HORO_ERROR, "an exception that is not a std::exception");
  }
}

}  // namespace horo::c

extern "C" {

const char* horo_last_error(void) { return horo::c::last_error.c_str(); }

const char* horo_status_name(horo_status status) {
  switch (status) {
    case HORO_OK:
      return "ok";
    case HORO_ERROR:
      return "error";
    case HORO_INVALID_ARGUMENT:
      return "invalid argument";
    case HORO_MISMATCH:
      return "mismatch between ranks";
    case HORO_COMMUNICATION_ERROR:
      return "communication error";
    case HORO_SHARED_MEMORY_ERROR:
      return "shared memory error";
    case HORO_DEVICE_ERROR:
      return "device error";
    case HORO_SHUT_DOWN:
      return "shut down";
  }
  return "unknown status";
}

const char* horo_version(void) { return HORO_VERSION; }

}  // extern "C"
