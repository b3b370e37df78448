local kube = require("kube")
local common = require("common")

local counters = "active succeeded failed desired"

function GetReplicas(obj)
  return tonumber(obj.spec.parallelism) or 1, kube.accuratePodRequirements(obj.spec.template)
end

function ReviseReplica(obj, replicas)
  obj.spec.parallelism = replicas
  return obj
end

function Retain(desired, observed)
  local labels = common.field(observed, "spec", "template", "metadata", "labels")
  if labels ~= nil then
    desired.spec.template.metadata = desired.spec.template.metadata or {}
    desired.spec.template.metadata.labels = labels
  end
  return desired
end

function InterpretHealth(obj)
  local status = obj.status
  return status ~= nil
    and common.number(status, "desired") ~= 0
    and common.number(status, "failed") == 0
    and (common.number(status, "succeeded") ~= 0 or common.number(status, "active") ~= 0)
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " phase startTime completionTime conditions")
end

-- The phase is that of the member that is furthest from done.
function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {sums = counters, earliest = "startTime", latest = "completionTime", conditions = true})
  local worst = common.worst(items, "failed paused running completed", "phase")
  obj.status.phase = common.field(worst, "status", "phase") or obj.status.phase
  return obj
end

function GetDependencies(obj)
  return common.podDependencies(obj, {obj.spec.template})
end
