local kube = require("kube")
local common = require("common")

local mebibyte = 1024 * 1024

-- Beside the heap a process needs memory of its own: a part of the heap, and never less than 384 MiB.
local function memory(obj, role)
  local heap = kube.getResourceQuantity(common.memory(role.memory or "1g"))
  if role.memoryOverhead ~= nil then
    return heap + kube.getResourceQuantity(common.memory(role.memoryOverhead))
  end
  local factor = tonumber(obj.spec.memoryOverheadFactor)
  if factor == nil then
    factor = common.oneOf(obj.spec.type, "Java Scala") and 0.1 or 0.4
  end
  return heap + math.max(heap * factor, 384 * mebibyte)
end

local function requirements(obj, role)
  return {
    nodeClaim = common.claimOf({
      nodeSelector = role.nodeSelector or obj.spec.nodeSelector, tolerations = role.tolerations, affinity = role.affinity,
    }),
    resourceRequest = {cpu = role.coreRequest or role.cores or 1, memory = tostring(math.ceil(memory(obj, role)))},
  }
end

local function executors(obj)
  local instances = common.field(obj, "spec", "executor", "instances") or 1
  local dynamic = obj.spec.dynamicAllocation
  if dynamic ~= nil and dynamic.enabled then
    return math.max(instances, dynamic.initialExecutors or 0, dynamic.minExecutors or 0)
  end
  return instances
end

function GetComponents(obj)
  return {
    {name = "driver", replicas = 1, replicaRequirements = requirements(obj, obj.spec.driver or {})},
    {name = "executor", replicas = executors(obj), replicaRequirements = requirements(obj, obj.spec.executor or {})},
  }
end

function InterpretHealth(obj)
  local state = common.field(obj, "status", "applicationState", "state")
  return state ~= nil and state ~= "" and state ~= "FAILED"
end

local fields = "driverInfo executorState submissionAttempts executionAttempts sparkApplicationId submissionID"

function ReflectStatus(obj)
  return common.report(obj, fields .. " applicationState lastSubmissionAttemptTime terminationTime")
end

-- The state is that of the member that is worst off.
function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {any = fields, latest = "lastSubmissionAttemptTime terminationTime"})
  local order = "FAILED FAILING SUBMISSION_FAILED INVALIDATING PENDING_RERUN UNKNOWN NEW SUBMITTED RUNNING SUCCEEDING COMPLETED"
  obj.status.applicationState = common.field(common.worst(items, order, "applicationState", "state"), "status", "applicationState")
    or obj.status.applicationState
  return obj
end
