local kube = require("kube")
local common = require("common")

local counters = "replicas readyReplicas currentReplicas updatedReplicas updatedReadyReplicas availableReplicas updatedAvailableReplicas"
local revisions = "updateRevision currentRevision labelSelector"

function GetReplicas(obj)
  return obj.spec.replicas or 1, kube.accuratePodRequirements(obj.spec.template)
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function InterpretHealth(obj)
  return common.rolledOut(obj)
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " " .. revisions .. " observedGeneration")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = counters, any = revisions})
end

-- Claims made from the templates of the set are not dependencies.
function GetDependencies(obj)
  local own = {}
  for _, template in ipairs(obj.spec.volumeClaimTemplates or {}) do
    own[template.metadata.name] = true
  end
  local refs = {}
  for _, ref in ipairs(common.podDependencies(obj, {obj.spec.template})) do
    if ref.kind ~= "PersistentVolumeClaim" or not own[ref.name] then
      table.insert(refs, ref)
    end
  end
  return refs
end
