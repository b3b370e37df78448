local kube = require("kube")
local common = require("common")

-- One replica is one pod, of the head or of a worker group: they are all taken to be as large as
-- the largest.
function GetReplicas(obj)
  local replicas, cpu, memory = 0, nil, nil
  for _, group in ipairs(common.rayGroups(obj.spec.rayClusterConfig)) do
    replicas = replicas + group.replicas
    local requirements = group.template and kube.accuratePodRequirements(group.template)
    local request = common.field(requirements, "resourceRequest") or {}
    cpu, memory = common.larger(cpu, request.cpu), common.larger(memory, request.memory)
  end
  if cpu == nil and memory == nil then
    return replicas, nil
  end
  return replicas, {resourceRequest = {cpu = cpu, memory = memory}}
end

-- The head is always there; the other replicas go to the worker groups in proportion to what they
-- have, the last one taking what rounding leaves. Groups that all have none get equal shares.
function ReviseReplica(obj, replicas)
  local groups = common.field(obj, "spec", "rayClusterConfig", "workerGroupSpecs") or {}
  local workers, total = math.max(0, replicas - 1), 0
  for _, group in ipairs(groups) do
    total = total + (group.replicas or 0)
  end
  local left = workers
  for n, group in ipairs(groups) do
    local share
    if total == 0 then
      share = math.floor(workers / #groups)
      if n <= workers % #groups then
        share = share + 1
      end
    elseif n == #groups then
      share = left
    else
      share = math.min(left, math.floor(workers * (group.replicas or 0) / total + 0.5))
    end
    group.replicas = share
    left = left - share
  end
  return obj
end

function InterpretHealth(obj)
  return common.isTrue(obj, "Ready")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = "numServeEndpoints", any = "serviceStatus", latest = "lastUpdateTime", conditions = true})
end

function GetDependencies(obj)
  return common.rayDependencies(obj, obj.spec.rayClusterConfig)
end
