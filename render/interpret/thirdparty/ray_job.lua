local common = require("common")

function GetComponents(obj)
  return common.rayComponents(obj.spec.rayClusterSpec)
end

function InterpretHealth(obj)
  local status = obj.status or {}
  return status.jobDeploymentStatus == "Running"
    or status.jobDeploymentStatus == "Complete" and status.jobStatus == "SUCCEEDED"
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {
    sums = "succeeded failed", any = "jobId jobStatus jobDeploymentStatus rayClusterName dashboardURL message reason",
    earliest = "startTime", latest = "endTime",
  })
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
