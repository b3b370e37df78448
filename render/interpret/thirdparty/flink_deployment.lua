local common = require("common")

local function request(role)
  local resource = common.field(role, "resource") or {}
  local memory = resource.memory
  return {cpu = resource.cpu, memory = memory and common.memory(memory)}
end

local function jobManagers(obj)
  return common.field(obj, "spec", "jobManager", "replicas") or 1
end

-- Without a number of its own there are as many task managers as the job's parallelism needs.
local function taskManagers(obj)
  local given = common.field(obj, "spec", "taskManager", "replicas")
  if given ~= nil then
    return given
  end
  local parallelism = common.field(obj, "spec", "job", "parallelism")
  local slots = tonumber(common.field(obj, "spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"))
  if parallelism == nil or slots == nil or slots <= 0 then
    return 1
  end
  return math.ceil(parallelism / slots)
end

function GetReplicas(obj)
  local job, task = request(obj.spec.jobManager), request(obj.spec.taskManager)
  local larger = {cpu = common.larger(job.cpu, task.cpu), memory = common.larger(job.memory, task.memory)}
  return jobManagers(obj) + taskManagers(obj), {resourceRequest = larger}
end

function GetComponents(obj)
  return {
    {name = "jobmanager", replicas = jobManagers(obj), replicaRequirements = {resourceRequest = request(obj.spec.jobManager)}},
    {name = "taskmanager", replicas = taskManagers(obj), replicaRequirements = {resourceRequest = request(obj.spec.taskManager)}},
  }
end

function InterpretHealth(obj)
  local status = obj.status
  if status == nil then
    return false
  end
  local state = common.field(status, "jobStatus", "state")
  if common.oneOf(state, "RUNNING FINISHED FAILED CANCELED SUSPENDED CANCELLING FAILING RESTARTING") then
    return true
  end
  -- A job that cannot start for want of its image will not start elsewhere either.
  if common.oneOf(state, "CREATED INITIALIZING RECONCILING") then
    for _, cause in ipairs({"ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"}) do
      if string.find(status.error or "", cause, 1, true) then
        return true
      end
    end
    return false
  end
  return (state == nil or state == "")
    and status.jobManagerDeploymentStatus == "READY" and status.lifecycleState == "STABLE"
end

local fields = "clusterInfo error jobManagerDeploymentStatus jobStatus lifecycleState reconciliationStatus taskManager"

function ReflectStatus(obj)
  return common.report(obj, fields .. " observedGeneration")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {any = fields})
end
