local kube = require("kube")
local common = require("common")

local counters = "replicas readyReplicas updatedReplicas updatedReadyReplicas availableReplicas expectedUpdatedReplicas"
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

function GetDependencies(obj)
  return common.podDependencies(obj, {obj.spec.template})
end
