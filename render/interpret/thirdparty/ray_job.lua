local common = require("common")

function GetComponents(obj)
  return common.rayComponents(obj.spec.rayClusterSpec)
end

function InterpretHealth(obj)
  local status = obj.status or {}
  return status.jobDeploymentStatus == "Running"
    or status.jobDeploymentStatus == "Complete" and status.jobStatus == "SUCCEEDED"
end

-- The states are those of the members that are worst off.
function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {
    sums = "succeeded failed", any = "jobId rayClusterName dashboardURL message reason",
    earliest = "startTime", latest = "endTime",
  })
  for name, order in pairs({
    jobStatus = "FAILED STOPPED PENDING RUNNING SUCCEEDED",
    jobDeploymentStatus = "ValidationFailed Failed Suspending Suspended Retrying Initializing Waiting Running Complete",
  }) do
    obj.status[name] = common.field(common.worst(items, order, name), "status", name) or obj.status[name]
  end
  return obj
end

function GetDependencies(obj)
  local refs = common.rayDependencies(obj, obj.spec.rayClusterSpec)
  local submitter = obj.spec.submitterPodTemplate
  if submitter ~= nil then
    for _, ref in ipairs(common.podDependencies(obj, {submitter})) do
      table.insert(refs, ref)
    end
  end
  return refs
end
