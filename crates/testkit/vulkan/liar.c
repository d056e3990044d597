// A Vulkan layer for tests: a driver with the limits of another card, and a driver that lies.
//
//   LIAR_LIMITS=binding=134217728,shared=16384   limits that are lower than those of the driver
//   LIAR=drop-dispatch@17,slow@30                lies, each at one call of its kind, counted from 1
//   LIAR_SLOW_MS=200                             how long a submission of a slow device sleeps
//   LIAR_LOG=path                                one line when the process ends, and one after each lie
//
// Counts are of the whole process. A word that is not known fails vkCreateInstance, so that no test passes because of a
// typing error. Link with -z nodelete: the loader unloads layers with their last instance, and the counts with them.
//
// Limits:
//   binding=N   bytes of one storage binding; Vulkan requires 128 MiB
//   buffer=N    bytes of one buffer and of one allocation; Vulkan requires 1 GiB
//   shared=N    bytes of workgroup memory
//   threads=N   invocations of a workgroup
//   heap=N      bytes of each heap on the device; an allocation beyond that fails, and the budget follows
//   heaps=1     one heap on the device that the host can map
//   heaps=2     a heap on the device, and one of the host
//   heaps=split two heaps on the device, the second of which the host can map
//   f16=0       no 16-bit floats and no 16-bit storage, and therefore no matrix units
//   units=0     no matrix units
// A size of subgroups cannot be made up: kernels would run with the real one. lavapipe has 4, 8 and 16 by
// LP_NATIVE_VECTOR_WIDTH=128, 256 and 512, SwiftShader has 4.
//
// Lies:
//   drop-dispatch@n  vkCmdDispatch n is not recorded
//   cut-dispatch@n   only half of its workgroups along the longest axis, none if there is one
//   drop-copy@n      vkCmdCopyBuffer n is not recorded: what was there before stays
//   tear-copy@n      only the first half of each of its regions
//   drop-submit@n    vkQueueSubmit n has no command buffers, and signals all the same
//   slow@n           after dispatch n every submission sleeps
//   lose@n           submission n, and all that its device is asked later, is VK_ERROR_DEVICE_LOST; a new device works
//   no-memory@n      vkAllocateMemory n is VK_ERROR_OUT_OF_DEVICE_MEMORY
//   wrong-sums@n     the kernels of products n and after it, counted as they are compiled, lose a part of a sum
//   die-listing      abort() in vkEnumeratePhysicalDevices
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan_core.h>

#define LAYER __attribute__((visibility("default")))
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

// What is counted.
enum { DISPATCHES, COPIES, SUBMITS, ALLOCATIONS, PRODUCTS, COUNTERS };
static const char *const counter_names[COUNTERS] = {"dispatches", "copies", "submits", "allocations", "products"};
static atomic_ulong counters[COUNTERS];

enum { DROP_DISPATCH, CUT_DISPATCH, DROP_COPY, TEAR_COPY, DROP_SUBMIT, SLOW, LOSE, NO_MEMORY, WRONG_SUMS, DIE_LISTING, LIES };
static const char *const lie_names[LIES] = {"drop-dispatch", "cut-dispatch", "drop-copy", "tear-copy",  "drop-submit",
                                            "slow",          "lose",         "no-memory", "wrong-sums", "die-listing"};

static struct {
  int what;
  unsigned long at;
  atomic_bool told;
} lies[64];
static size_t lie_count;
static atomic_bool is_slow, is_wrong;
static unsigned long slow_ms = 200;
static const char *log_path;

static struct {
  uint64_t binding, buffer, shared, threads, heap;
  // 0 for the driver's own, 3 for `split`.
  int heaps;
  bool no_f16, no_units;
} limits;
// A word that is not known.
static char misread[128];

// --- What the environment says ---------------------------------------------------------------------------------------

static void misunderstood(const char *word) {
  snprintf(misread, sizeof misread, "%s", word);
}

static void read_limit(const char *word) {
  const struct {
    const char *name;
    uint64_t *to;
  } sizes[] = {{"binding=", &limits.binding},
               {"buffer=", &limits.buffer},
               {"shared=", &limits.shared},
               {"threads=", &limits.threads},
               {"heap=", &limits.heap}};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    size_t length = strlen(sizes[i].name);
    char *end;
    if (strncmp(word, sizes[i].name, length) != 0) continue;
    *sizes[i].to = strtoull(word + length, &end, 10);
    if (*end != 0 || *sizes[i].to == 0) misunderstood(word);
    return;
  }
  if (strcmp(word, "heaps=1") == 0) limits.heaps = 1;
  else if (strcmp(word, "heaps=2") == 0) limits.heaps = 2;
  else if (strcmp(word, "heaps=split") == 0) limits.heaps = 3;
  else if (strcmp(word, "f16=0") == 0) limits.no_f16 = limits.no_units = true;
  else if (strcmp(word, "units=0") == 0) limits.no_units = true;
  else misunderstood(word);
}

static void read_lie(const char *word) {
  const char *at = strchrnul(word, '@');
  for (int what = 0; what < LIES; what++) {
    char *end = "";
    if (strlen(lie_names[what]) != (size_t)(at - word) || strncmp(word, lie_names[what], (size_t)(at - word)) != 0) continue;
    if ((*at == '@') == (what == DIE_LISTING) || lie_count == COUNT(lies)) break;
    lies[lie_count].what = what;
    lies[lie_count].at = *at == '@' ? strtoul(at + 1, &end, 10) : 0;
    if (*end != 0 || (*at == '@' && lies[lie_count].at == 0)) break;
    lie_count++;
    return;
  }
  misunderstood(word);
}

static void each_word(const char *list, void read(const char *)) {
  char *words = strdup(list != NULL ? list : ""), *rest = words, *word;
  while (words != NULL && (word = strsep(&rest, ",")) != NULL)
    if (*word != 0) read(word);
  free(words);
}

__attribute__((constructor)) static void read_environment(void) {
  const char *slow = getenv("LIAR_SLOW_MS");
  if (slow != NULL) slow_ms = strtoul(slow, NULL, 10);
  log_path = getenv("LIAR_LOG");
  each_word(getenv("LIAR_LIMITS"), read_limit);
  each_word(getenv("LIAR"), read_lie);
}

// One line by one write: processes and threads share the file.
static void note(const char *event) {
  char line[2048];
  size_t used = (size_t)snprintf(line, sizeof line, "pid=%d event=%s", (int)getpid(), event);
  if (log_path == NULL) return;
  for (int i = 0; i < COUNTERS; i++)
    used += (size_t)snprintf(line + used, sizeof line - used, " %s=%lu", counter_names[i], atomic_load(&counters[i]));
  used += (size_t)snprintf(line + used, sizeof line - used, " told=");
  const char *comma = "";
  for (size_t i = 0; i < lie_count && used < sizeof line - 64; i++) {
    if (!atomic_load(&lies[i].told)) continue;
    used += (size_t)snprintf(line + used, sizeof line - used, "%s%s@%lu", comma, lie_names[lies[i].what], lies[i].at);
    comma = ",";
  }
  line[used++] = '\n';
  int file = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  ssize_t written = write(file, line, used);
  (void)written;
  close(file);
}

__attribute__((destructor)) static void at_end(void) {
  note("end");
}

// Whether this is told at call `n` of its kind.
static bool told(int what, unsigned long n) {
  for (size_t i = 0; i < lie_count; i++) {
    if (lies[i].what != what || lies[i].at != n || atomic_exchange(&lies[i].told, true)) continue;
    note("lie");
    return true;
  }
  return false;
}

static unsigned long count(int what) {
  return atomic_fetch_add(&counters[what], 1) + 1;
}

// --- Instances and devices -------------------------------------------------------------------------------------------

// Both are found by the loader's table, which is the first word of every handle that calls are dispatched by.
struct instance {
  void *key;
  VkInstance handle;
  PFN_vkGetInstanceProcAddr next;
  PFN_vkDestroyInstance destroy;
  PFN_vkEnumeratePhysicalDevices enumerate;
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
  PFN_vkGetPhysicalDeviceFeatures2 features2;
  PFN_vkGetPhysicalDeviceMemoryProperties memory;
  PFN_vkGetPhysicalDeviceMemoryProperties2 memory2;
  VkResult(VKAPI_PTR *units)(VkPhysicalDevice, uint32_t *, void *);
  struct instance *after;
};

struct device {
  void *key;
  PFN_vkGetDeviceProcAddr next;
  PFN_vkDestroyDevice destroy;
  PFN_vkDeviceWaitIdle device_wait_idle;
  PFN_vkQueueWaitIdle queue_wait_idle;
  PFN_vkQueueSubmit submit;
  PFN_vkWaitSemaphores wait_semaphores;
  PFN_vkGetSemaphoreCounterValue counter_value;
  PFN_vkWaitForFences wait_for_fences;
  PFN_vkGetFenceStatus fence_status;
  PFN_vkAllocateMemory allocate;
  PFN_vkFreeMemory free;
  PFN_vkGetBufferMemoryRequirements buffer_requirements;
  PFN_vkGetBufferMemoryRequirements2 buffer_requirements2;
  PFN_vkCmdDispatch dispatch;
  PFN_vkCmdCopyBuffer copy;
  PFN_vkCreateShaderModule create_module;
  // Memory as it is told, and the driver's type behind each of its types.
  VkPhysicalDeviceMemoryProperties told;
  uint32_t real[VK_MAX_MEMORY_TYPES];
  atomic_bool lost;
  struct device *after;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct instance *instances;
static struct device *devices;

static void *key_of(const void *handle) {
  return *(void *const *)handle;
}

static struct instance *instance_of(const void *handle) {
  pthread_mutex_lock(&lock);
  struct instance *found = instances;
  while (found != NULL && found->key != key_of(handle)) found = found->after;
  pthread_mutex_unlock(&lock);
  return found;
}

static struct device *device_of(const void *handle) {
  pthread_mutex_lock(&lock);
  struct device *found = devices;
  while (found != NULL && found->key != key_of(handle)) found = found->after;
  pthread_mutex_unlock(&lock);
  return found;
}

// What is allocated in each heap, by all devices of the process.
struct block {
  VkDeviceMemory memory;
  uint32_t heap;
  VkDeviceSize size;
  struct block *after;
};
static struct block *blocks;
static VkDeviceSize used[VK_MAX_MEMORY_HEAPS];

static bool tells_memory(void) {
  return limits.heaps != 0 || limits.heap != 0;
}

static VkDeviceSize lower(VkDeviceSize real, uint64_t limit) {
  return limit != 0 && limit < real ? limit : real;
}

// Replaces what the driver says of its memory. `real[i]` is the driver's type behind type `i`.
static void tell_memory(VkPhysicalDeviceMemoryProperties *memory, uint32_t *real) {
  const VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  for (uint32_t i = 0; i < VK_MAX_MEMORY_TYPES; i++) real[i] = i;
  if (limits.heaps != 0) {
    // Software has a type that is both, so that it can stand for either.
    uint32_t both = 0;
    while (both + 1 < memory->memoryTypeCount &&
           (memory->memoryTypes[both].propertyFlags & (mapped | local)) != (mapped | local))
      both++;
    VkDeviceSize size = memory->memoryHeaps[memory->memoryTypes[both].heapIndex].size;
    uint32_t count = limits.heaps == 1 ? 1 : 2;
    memory->memoryTypeCount = memory->memoryHeapCount = count;
    for (uint32_t i = 0; i < count; i++) {
      bool host = limits.heaps == 2 && i == 1;
      memory->memoryHeaps[i] = (VkMemoryHeap){size, host ? 0 : VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
      memory->memoryTypes[i] = (VkMemoryType){(host ? 0 : local) | (i + 1 == count ? mapped : 0), i};
      real[i] = both;
    }
  }
  for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
    if (memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      memory->memoryHeaps[i].size = lower(memory->memoryHeaps[i].size, limits.heap);
}

// --- Limits ----------------------------------------------------------------------------------------------------------

static void lower32(uint32_t *value, uint64_t limit) {
  *value = (uint32_t)lower(*value, limit);
}

static void tell_limits(VkPhysicalDeviceLimits *told) {
  lower32(&told->maxStorageBufferRange, limits.binding);
  lower32(&told->maxComputeSharedMemorySize, limits.shared);
  lower32(&told->maxComputeWorkGroupInvocations, limits.threads);
  for (int i = 0; i < 3; i++) lower32(&told->maxComputeWorkGroupSize[i], limits.threads);
}

static void tell_buffers(VkDeviceSize *value) {
  *value = lower(*value, limits.buffer);
}

static void tell_properties(VkBaseOutStructure *next) {
  for (; next != NULL; next = next->pNext) {
    switch ((int)next->sType) {
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
        tell_buffers(&((VkPhysicalDeviceMaintenance3Properties *)next)->maxMemoryAllocationSize);
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        tell_buffers(&((VkPhysicalDeviceMaintenance4Properties *)next)->maxBufferSize);
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES:
        tell_buffers(&((VkPhysicalDeviceVulkan11Properties *)next)->maxMemoryAllocationSize);
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES:
        tell_buffers(&((VkPhysicalDeviceVulkan13Properties *)next)->maxBufferSize);
        break;
      default: break;
    }
  }
}

// Headers of 1.3.239 do not have it yet.
enum { COOPERATIVE_MATRIX_FEATURES = 1000506000 };
struct cooperative_matrix_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};

static void tell_features(VkBaseOutStructure *next) {
  for (; next != NULL; next = next->pNext) {
    if ((int)next->sType == COOPERATIVE_MATRIX_FEATURES && limits.no_units)
      ((struct cooperative_matrix_features *)next)->cooperativeMatrix = VK_FALSE;
    if (!limits.no_f16) continue;
    switch ((int)next->sType) {
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        ((VkPhysicalDeviceShaderFloat16Int8Features *)next)->shaderFloat16 = VK_FALSE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        ((VkPhysicalDeviceVulkan12Features *)next)->shaderFloat16 = VK_FALSE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        ((VkPhysicalDevice16BitStorageFeatures *)next)->storageBuffer16BitAccess = VK_FALSE;
        ((VkPhysicalDevice16BitStorageFeatures *)next)->uniformAndStorageBuffer16BitAccess = VK_FALSE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        ((VkPhysicalDeviceVulkan11Features *)next)->storageBuffer16BitAccess = VK_FALSE;
        ((VkPhysicalDeviceVulkan11Features *)next)->uniformAndStorageBuffer16BitAccess = VK_FALSE;
        break;
      default: break;
    }
  }
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties) {
  instance_of(device)->properties(device, properties);
  tell_limits(&properties->limits);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties) {
  instance_of(device)->properties2(device, properties);
  tell_limits(&properties->properties.limits);
  tell_properties(properties->pNext);
}

static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features) {
  instance_of(device)->features2(device, features);
  tell_features(features->pNext);
}

// Matrix units of no kind. A driver without them is not asked.
static VKAPI_ATTR VkResult VKAPI_CALL get_units(VkPhysicalDevice device, uint32_t *number, void *list) {
  struct instance *instance = instance_of(device);
  if (!limits.no_units && instance->units != NULL) return instance->units(device, number, list);
  *number = 0;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *memory) {
  uint32_t real[VK_MAX_MEMORY_TYPES];
  instance_of(device)->memory(device, memory);
  tell_memory(memory, real);
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *memory) {
  uint32_t real[VK_MAX_MEMORY_TYPES];
  instance_of(device)->memory2(device, memory);
  tell_memory(&memory->memoryProperties, real);
  for (VkBaseOutStructure *next = memory->pNext; next != NULL && tells_memory(); next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)next;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < memory->memoryProperties.memoryHeapCount; i++) {
      budget->heapBudget[i] = memory->memoryProperties.memoryHeaps[i].size;
      budget->heapUsage[i] = used[i];
    }
    pthread_mutex_unlock(&lock);
  }
}

// --- Lies ------------------------------------------------------------------------------------------------------------

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t *number, VkPhysicalDevice *list) {
  if (told(DIE_LISTING, 0)) abort();
  return instance_of(instance)->enumerate(instance, number, list);
}

static VKAPI_ATTR void VKAPI_CALL cmd_dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  unsigned long n = count(DISPATCHES);
  if (told(SLOW, n)) atomic_store(&is_slow, true);
  if (told(DROP_DISPATCH, n)) return;
  if (told(CUT_DISPATCH, n)) {
    if (x >= y && x >= z) x /= 2;
    else if (y >= z) y /= 2;
    else z /= 2;
    if (x == 0 || y == 0 || z == 0) return;
  }
  device_of(commands)->dispatch(commands, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL cmd_copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t number,
                                           const VkBufferCopy *regions) {
  unsigned long n = count(COPIES);
  if (told(DROP_COPY, n)) return;
  bool torn = told(TEAR_COPY, n);
  for (uint32_t i = 0; torn && i < number; i++) {
    VkBufferCopy half = regions[i];
    half.size /= 2;
    if (half.size != 0) device_of(commands)->copy(commands, from, to, 1, &half);
  }
  if (!torn) device_of(commands)->copy(commands, from, to, number, regions);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t number, const VkSubmitInfo *infos, VkFence fence) {
  struct device *device = device_of(queue);
  unsigned long n = count(SUBMITS);
  if (atomic_load(&device->lost)) return VK_ERROR_DEVICE_LOST;
  if (told(LOSE, n)) {
    // What was submitted before ends first: the driver below must not work on what the program now frees.
    device->queue_wait_idle(queue);
    atomic_store(&device->lost, true);
    return VK_ERROR_DEVICE_LOST;
  }
  if (atomic_load(&is_slow)) {
    struct timespec sleep = {(time_t)(slow_ms / 1000), (long)(slow_ms % 1000) * 1000000};
    nanosleep(&sleep, NULL);
  }
  if (!told(DROP_SUBMIT, n)) return device->submit(queue, number, infos, fence);
  VkSubmitInfo *empty = calloc(number, sizeof *empty);
  if (empty == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < number; i++) {
    empty[i] = infos[i];
    empty[i].commandBufferCount = 0;
    empty[i].pCommandBuffers = NULL;
  }
  VkResult result = device->submit(queue, number, empty, fence);
  free(empty);
  return result;
}

// Fused multiply-adds of a kernel, and where the last of them is. Instructions follow five words, each behind its length.
static size_t multiply_adds(const uint32_t *code, size_t words, size_t *last) {
  const uint32_t ext_inst = 12, fma = 50, length = 8;
  size_t found = 0;
  for (size_t at = 5; at < words && code[at] >> 16 != 0; at += code[at] >> 16) {
    if (code[at] != (length << 16 | ext_inst) || at + length > words || code[at + 4] != fma) continue;
    *last = at;
    found++;
  }
  return found;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkShaderModule *module) {
  struct device *device = device_of(handle);
  size_t last = 0;
  // Nothing but products has so many.
  bool product = multiply_adds(info->pCode, info->codeSize / 4, &last) >= 16;
  if (product && told(WRONG_SUMS, count(PRODUCTS))) atomic_store(&is_wrong, true);
  if (!product || !atomic_load(&is_wrong)) return device->create_module(handle, info, callbacks, module);
  uint32_t *code = malloc(info->codeSize);
  if (code == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
  memcpy(code, info->pCode, info->codeSize);
  // It adds a factor, which has the same type, to the product, and forgets the sum so far.
  code[last + 7] = code[last + 6];
  VkShaderModuleCreateInfo wrong = *info;
  wrong.pCode = code;
  VkResult result = device->create_module(handle, &wrong, callbacks, module);
  free(code);
  return result;
}

// A lost device says so; any other is asked.
#define UNLESS_LOST(handle, call)                          \
  struct device *device = device_of(handle);               \
  if (atomic_load(&device->lost)) return VK_ERROR_DEVICE_LOST; \
  return device->call

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice handle, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
  UNLESS_LOST(handle, wait_semaphores(handle, info, timeout));
}

static VKAPI_ATTR VkResult VKAPI_CALL counter_value(VkDevice handle, VkSemaphore semaphore, uint64_t *value) {
  UNLESS_LOST(handle, counter_value(handle, semaphore, value));
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice handle, uint32_t number, const VkFence *fences, VkBool32 all,
                                                      uint64_t timeout) {
  UNLESS_LOST(handle, wait_for_fences(handle, number, fences, all, timeout));
}

static VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice handle, VkFence fence) {
  UNLESS_LOST(handle, fence_status(handle, fence));
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice handle) {
  UNLESS_LOST(handle, device_wait_idle(handle));
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_wait_idle(VkQueue queue) {
  UNLESS_LOST(queue, queue_wait_idle(queue));
}

// --- Memory ----------------------------------------------------------------------------------------------------------

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice handle, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory) {
  struct device *device = device_of(handle);
  if (told(NO_MEMORY, count(ALLOCATIONS))) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (limits.buffer != 0 && info->allocationSize > limits.buffer) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (!tells_memory()) return device->allocate(handle, info, callbacks, memory);
  VkMemoryAllocateInfo real = *info;
  real.memoryTypeIndex = device->real[info->memoryTypeIndex];
  struct block *block = malloc(sizeof *block);
  if (block == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
  block->heap = device->told.memoryTypes[info->memoryTypeIndex].heapIndex;
  block->size = info->allocationSize;
  pthread_mutex_lock(&lock);
  bool fits = block->size <= device->told.memoryHeaps[block->heap].size - used[block->heap];
  VkResult result = fits ? device->allocate(handle, &real, callbacks, memory) : VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (result == VK_SUCCESS) {
    block->memory = *memory;
    used[block->heap] += block->size;
    block->after = blocks;
    blocks = block;
  }
  pthread_mutex_unlock(&lock);
  if (result != VK_SUCCESS) free(block);
  return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks *callbacks) {
  struct device *device = device_of(handle);
  pthread_mutex_lock(&lock);
  struct block **at = &blocks;
  while (*at != NULL && (*at)->memory != memory) at = &(*at)->after;
  if (*at != NULL) {
    struct block *gone = *at;
    used[gone->heap] -= gone->size;
    *at = gone->after;
    free(gone);
  }
  pthread_mutex_unlock(&lock);
  device->free(handle, memory, callbacks);
}

// Types that are told, for those of the driver.
static uint32_t told_types(const struct device *device, uint32_t bits) {
  uint32_t types = 0;
  if (limits.heaps == 0) return bits;
  for (uint32_t i = 0; i < device->told.memoryTypeCount; i++)
    if (bits >> device->real[i] & 1) types |= 1u << i;
  return types;
}

static VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice handle, VkBuffer buffer, VkMemoryRequirements *out) {
  struct device *device = device_of(handle);
  device->buffer_requirements(handle, buffer, out);
  out->memoryTypeBits = told_types(device, out->memoryTypeBits);
}

static VKAPI_ATTR void VKAPI_CALL buffer_requirements2(VkDevice handle, const VkBufferMemoryRequirementsInfo2 *info,
                                                       VkMemoryRequirements2 *out) {
  struct device *device = device_of(handle);
  device->buffer_requirements2(handle, info, out);
  out->memoryRequirements.memoryTypeBits = told_types(device, out->memoryRequirements.memoryTypeBits);
}

// --- The loader's side -----------------------------------------------------------------------------------------------

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                                      VkInstance *handle) {
  VkLayerInstanceCreateInfo *chain = (void *)(uintptr_t)info->pNext;
  while (chain != NULL && (chain->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || chain->function != VK_LAYER_LINK_INFO))
    chain = (void *)(uintptr_t)chain->pNext;
  if (misread[0] != 0) fprintf(stderr, "liar: what is \"%s\"?\n", misread);
  struct instance *instance = calloc(1, sizeof *instance);
  if (chain == NULL || instance == NULL || misread[0] != 0) {
    free(instance);
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  PFN_vkGetInstanceProcAddr next = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)next(NULL, "vkCreateInstance"))(info, callbacks, handle);
  if (result != VK_SUCCESS) {
    free(instance);
    return result;
  }
  instance->key = key_of(*handle);
  instance->handle = *handle;
  instance->next = next;
#define NEXT(field, name) instance->field = (void *)next(*handle, name)
#define EITHER(field, name) \
  if (NEXT(field, name), instance->field == NULL) NEXT(field, name "KHR")
  NEXT(destroy, "vkDestroyInstance");
  NEXT(enumerate, "vkEnumeratePhysicalDevices");
  NEXT(properties, "vkGetPhysicalDeviceProperties");
  EITHER(properties2, "vkGetPhysicalDeviceProperties2");
  EITHER(features2, "vkGetPhysicalDeviceFeatures2");
  NEXT(memory, "vkGetPhysicalDeviceMemoryProperties");
  EITHER(memory2, "vkGetPhysicalDeviceMemoryProperties2");
  NEXT(units, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
#undef EITHER
#undef NEXT
  pthread_mutex_lock(&lock);
  instance->after = instances;
  instances = instance;
  pthread_mutex_unlock(&lock);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance handle, const VkAllocationCallbacks *callbacks) {
  if (handle == NULL) return;
  pthread_mutex_lock(&lock);
  struct instance **at = &instances, *gone;
  while (*at != NULL && (*at)->key != key_of(handle)) at = &(*at)->after;
  if ((gone = *at) != NULL) *at = gone->after;
  pthread_mutex_unlock(&lock);
  if (gone != NULL) gone->destroy(handle, callbacks);
  free(gone);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDevice *handle) {
  struct instance *instance = instance_of(physical);
  VkLayerDeviceCreateInfo *chain = (void *)(uintptr_t)info->pNext;
  while (chain != NULL && (chain->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || chain->function != VK_LAYER_LINK_INFO))
    chain = (void *)(uintptr_t)chain->pNext;
  struct device *device = calloc(1, sizeof *device);
  if (chain == NULL || device == NULL) {
    free(device);
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  PFN_vkGetInstanceProcAddr above = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr next = chain->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateDevice)above(instance->handle, "vkCreateDevice"))(physical, info, callbacks, handle);
  if (result != VK_SUCCESS) {
    free(device);
    return result;
  }
  device->key = key_of(*handle);
  device->next = next;
#define NEXT(field, name) device->field = (void *)next(*handle, name)
#define EITHER(field, name) \
  if (NEXT(field, name), device->field == NULL) NEXT(field, name "KHR")
  NEXT(destroy, "vkDestroyDevice");
  NEXT(device_wait_idle, "vkDeviceWaitIdle");
  NEXT(queue_wait_idle, "vkQueueWaitIdle");
  NEXT(submit, "vkQueueSubmit");
  EITHER(wait_semaphores, "vkWaitSemaphores");
  EITHER(counter_value, "vkGetSemaphoreCounterValue");
  NEXT(wait_for_fences, "vkWaitForFences");
  NEXT(fence_status, "vkGetFenceStatus");
  NEXT(allocate, "vkAllocateMemory");
  NEXT(free, "vkFreeMemory");
  NEXT(buffer_requirements, "vkGetBufferMemoryRequirements");
  EITHER(buffer_requirements2, "vkGetBufferMemoryRequirements2");
  NEXT(dispatch, "vkCmdDispatch");
  NEXT(copy, "vkCmdCopyBuffer");
  NEXT(create_module, "vkCreateShaderModule");
#undef EITHER
#undef NEXT
  instance->memory(physical, &device->told);
  tell_memory(&device->told, device->real);
  pthread_mutex_lock(&lock);
  device->after = devices;
  devices = device;
  pthread_mutex_unlock(&lock);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *callbacks) {
  if (handle == NULL) return;
  pthread_mutex_lock(&lock);
  struct device **at = &devices, *gone;
  while (*at != NULL && (*at)->key != key_of(handle)) at = &(*at)->after;
  if ((gone = *at) != NULL) *at = gone->after;
  pthread_mutex_unlock(&lock);
  if (gone != NULL) gone->destroy(handle, callbacks);
  free(gone);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name);

struct hook {
  const char *name;
  PFN_vkVoidFunction function;
};

#define HOOK(name, function) {name, (PFN_vkVoidFunction)(function)}

static const struct hook instance_hooks[] = {
    HOOK("vkGetInstanceProcAddr", get_instance_proc),
    HOOK("vkCreateInstance", create_instance),
    HOOK("vkDestroyInstance", destroy_instance),
    HOOK("vkCreateDevice", create_device),
    HOOK("vkEnumeratePhysicalDevices", enumerate),
    HOOK("vkGetPhysicalDeviceProperties", get_properties),
    HOOK("vkGetPhysicalDeviceProperties2", get_properties2),
    HOOK("vkGetPhysicalDeviceProperties2KHR", get_properties2),
    HOOK("vkGetPhysicalDeviceFeatures2", get_features2),
    HOOK("vkGetPhysicalDeviceFeatures2KHR", get_features2),
    HOOK("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", get_units),
    HOOK("vkGetPhysicalDeviceMemoryProperties", get_memory),
    HOOK("vkGetPhysicalDeviceMemoryProperties2", get_memory2),
    HOOK("vkGetPhysicalDeviceMemoryProperties2KHR", get_memory2),
};

static const struct hook device_hooks[] = {
    HOOK("vkGetDeviceProcAddr", get_device_proc),
    HOOK("vkDestroyDevice", destroy_device),
    HOOK("vkDeviceWaitIdle", device_wait_idle),
    HOOK("vkQueueWaitIdle", queue_wait_idle),
    HOOK("vkQueueSubmit", queue_submit),
    HOOK("vkWaitSemaphores", wait_semaphores),
    HOOK("vkWaitSemaphoresKHR", wait_semaphores),
    HOOK("vkGetSemaphoreCounterValue", counter_value),
    HOOK("vkGetSemaphoreCounterValueKHR", counter_value),
    HOOK("vkWaitForFences", wait_for_fences),
    HOOK("vkGetFenceStatus", fence_status),
    HOOK("vkAllocateMemory", allocate),
    HOOK("vkFreeMemory", free_memory),
    HOOK("vkGetBufferMemoryRequirements", buffer_requirements),
    HOOK("vkGetBufferMemoryRequirements2", buffer_requirements2),
    HOOK("vkGetBufferMemoryRequirements2KHR", buffer_requirements2),
    HOOK("vkCmdDispatch", cmd_dispatch),
    HOOK("vkCmdCopyBuffer", cmd_copy),
    HOOK("vkCreateShaderModule", create_module),
};

static PFN_vkVoidFunction hooked(const struct hook *hooks, size_t number, const char *name) {
  for (size_t i = 0; i < number; i++)
    if (strcmp(hooks[i].name, name) == 0) return hooks[i].function;
  return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name) {
  PFN_vkVoidFunction found = hooked(device_hooks, COUNT(device_hooks), name);
  struct device *known = device_of(device);
  PFN_vkVoidFunction real = known != NULL ? known->next(device, name) : NULL;
  // What the driver lacks is not offered.
  return real != NULL && found != NULL ? found : real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char *name) {
  PFN_vkVoidFunction found = hooked(instance_hooks, COUNT(instance_hooks), name);
  if (found == NULL) found = hooked(device_hooks, COUNT(device_hooks), name);
  if (found != NULL || instance == NULL) return found;
  struct instance *known = instance_of(instance);
  return known != NULL ? known->next(instance, name) : NULL;
}

LAYER VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *offer) {
  if (offer->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
  offer->loaderLayerInterfaceVersion = 2;
  offer->pfnGetInstanceProcAddr = get_instance_proc;
  offer->pfnGetDeviceProcAddr = get_device_proc;
  offer->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
