local common = require("common")

local counters = "matchedPods updatedPods readyPods updatedReadyPods"

-- The containers go into pods of others: a SidecarSet has no replicas of its own.
function GetReplicas()
  return 0, nil
end

function Retain(desired)
  return desired
end

function InterpretHealth(obj)
  if obj.status == nil then
    return false
  end
  local matched = common.number(obj.status, "matchedPods")
  return matched == 0 or common.number(obj.status, "updatedPods") == matched
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " latestRevision observedGeneration")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = counters, any = "latestRevision"})
end

function GetDependencies(obj)
  local spec = obj.spec
  local kube = require("kube")
  return kube.getPodDependencies({spec = {
    containers = spec.containers, initContainers = spec.initContainers,
    volumes = spec.volumes, imagePullSecrets = spec.imagePullSecrets,
  }}, spec.namespace)
end
