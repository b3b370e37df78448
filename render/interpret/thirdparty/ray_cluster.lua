local common = require("common")

function GetComponents(obj)
  return common.rayComponents(obj.spec)
end

function InterpretHealth(obj)
  return common.isTrue(obj, "HeadPodReady") and common.isTrue(obj, "RayClusterProvisioned")
    and not common.isTrue(obj, "RayClusterReplicaFailure")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {
    sums = "readyWorkerReplicas availableWorkerReplicas desiredWorkerReplicas minWorkerReplicas maxWorkerReplicas",
    any = "state", latest = "lastUpdateTime", conditions = true,
  })
end
