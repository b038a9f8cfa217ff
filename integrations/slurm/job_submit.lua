-- SPDX-License-Identifier: Apache-2.0
-- Forecasts for the jobs of a Slurm cluster (JobSubmitPlugins=lua). A job asks by its comment:
--
--   sbatch --comment='perfpred:network=resnet50;batch_size=64;epochs=90' train.sh
--
-- The answer is looked up in a table that `perfpred serve --slurm-table` keeps. This script waits for nobody: it opens
-- that file, finds a line by bisection, and appends a request that is not there to a second file. Whatever goes wrong, the
-- job passes as it came, and a line in slurmctld's log says why. It never rejects a job, and never shortens the limit of
-- one that has a limit. docs/guides/clusters.md says how it is installed.
--
-- A job_submit.lua of your own calls it so:
--   perfpred = { table = "/run/perfpred/slurm/table" }   -- what differs from the settings below
--   dofile("/usr/share/perfpred/integrations/slurm/job_submit.lua")   -- defines slurm_job_submit(); yours, defined below, calls
--   perfpred.submit(job_desc, part_list)                 -- this in it

perfpred = perfpred or {}
perfpred.table = perfpred.table or "/run/perfpred/slurm/table"
-- While this file exists, jobs pass: touch it, and nothing is restarted.
perfpred.disable = perfpred.disable or "/run/perfpred/slurm/disable"
-- A table that is older is that of a service which has stopped: it writes one every 10 seconds.
perfpred.stale_sec = perfpred.stale_sec or 60
-- Of a comment, and of the file of requests: what is longer is not asked (src/service/slurm_table.cpp has the same).
perfpred.longest_request = 1024
perfpred.most_bytes = 1048576

local function log(reason, text)
	slurm.log_info("perfpred: %s", reason .. ": " .. text)
end

-- Slurm's formats are those of C: a text with % is handed over as a value.
local function tell(text)
	slurm.log_user("%s", "perfpred: " .. text)
end

-- Whether a comes before b by its bytes: < of Lua follows the locale.
local function comes_before(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = a:byte(i), b:byte(i)
		if x ~= y then
			return x < y
		end
	end
	return #a < #b
end

-- The line of a request, or nil. Its lines begin at `from`, are sorted, and end at `to`.
local function find_line(file, request, from, to)
	local low, high = from, to -- the line, if there is one, begins in [low, high)
	while low < high do
		local middle = math.floor((low + high) / 2)
		local begin = low
		if middle > low then
			file:seek("set", middle - 1)
			file:read("*l") -- the rest of the line in which the middle is
			begin = file:seek()
		else
			file:seek("set", low)
		end
		if begin >= high then
			high = middle
		else
			local line = file:read("*l")
			local key = line:match("^[^\t]*")
			if key == request then
				return line
			elseif comes_before(key, request) then
				low = file:seek()
			else
				high = middle
			end
		end
	end
	return nil
end

-- The first line of an open table. Raises a reason for one that is damaged or stale.
local function head_of(file)
	local head = file:read("*l") or ""
	local written, mode, bytes =
		head:match("^perfpred%-slurm%-table 1 written=(%d+) mode=(%a+) rows=%d+ bytes=(%d+)$")
	if not written then
		error({ reason = "damaged", text = "the table has no head that this version knows" })
	end
	local from = file:seek()
	local to = file:seek("end")
	if to ~= from + tonumber(bytes) then
		error({ reason = "damaged", text = "the table has " .. to - from .. " of " .. bytes .. " bytes" })
	end
	local age = os.time() - tonumber(written)
	if age > perfpred.stale_sec then
		error({ reason = "stale", text = "the table is " .. age .. " s old: perfpred serve does not run" })
	end
	return { mode = mode, from = from, to = to }
end

-- Leaves a request to the service, unless it has as many already as it reads at once.
local function ask(request)
	local file, problem = io.open(perfpred.table .. ".requests", "a")
	if not file then
		log("not_asked", problem)
		return
	end
	if file:seek("end") + #request < perfpred.most_bytes then
		file:write(request, "\n")
		log("unknown", "it is asked, and known when it is submitted again: " .. request)
	else
		log("not_asked", "too many requests wait: perfpred serve does not take them")
	end
	file:close()
end

local function look_up(request)
	local file, problem = io.open(perfpred.table, "r")
	if not file then
		error({ reason = "no_table", text = problem })
	end
	local good, head = pcall(head_of, file)
	local found, line
	if good then
		found, line = pcall(find_line, file, request, head.from, head.to)
	end
	file:close()
	if not good then
		error(head, 0)
	elseif not found then
		error(line, 0)
	end
	return head, line
end

-- What a comment asks for; nil where it asks for nothing.
local function request_of(comment)
	local text = comment and (comment:match("^perfpred:(.*)$") or comment:match("%sperfpred:(.*)$"))
	text = text and text:match("^%S*")
	if not text then
		return nil
	elseif text == "" or #text > perfpred.longest_request or not text:match("^[!-~]+$") then
		error({ reason = "no_request", text = "the comment is no request: name=value;name=value" })
	end
	return text
end

-- The partition by name: the one that is asked for, else the default one.
local function partition_of(job_desc, part_list)
	if job_desc.partition then
		return job_desc.partition
	end
	for name, partition in pairs(part_list or {}) do
		if partition.flag_default == 1 then
			return name
		end
	end
	return ""
end

local function exists(path)
	local file = io.open(path, "r")
	if file then
		file:close()
	end
	return file ~= nil
end

-- Sets the limit of a job without one, where its partition allows as long a one.
local function set_limit(job_desc, part_list, partition, minutes)
	local known = (part_list or {})[partition]
	local most = known and known.max_time
	if most and most ~= slurm.INFINITE and most ~= slurm.NO_VAL and minutes > most then
		log("beyond_partition", minutes .. " min are more than partition " .. partition .. " allows")
		return
	end
	job_desc.time_limit = minutes
	tell("the time limit is " .. minutes .. " min, which 999 of 1,000 such jobs keep")
end

local function take(job_desc, part_list, partition, head, line)
	local _, state, p05_sec, minutes, verdict, comment = line:match("^([^\t]*)\t(ok)\t(%d+)\t(%d+)\t([%a_]*)\t([^\t]+)$")
	if state ~= "ok" then
		local why = line:match("^[^\t]*\trefused\t(.*)$")
		if not why then
			error({ reason = "damaged", text = "a line of the table is none: " .. line })
		end
		log("refused", why)
		tell("no forecast: " .. why)
		return
	end
	minutes, p05_sec = tonumber(minutes), tonumber(p05_sec)
	if verdict == "does_not_fit" then
		tell("the job needs more memory than its device has")
	end
	local own = job_desc.time_limit
	local has_own = own and own ~= slurm.NO_VAL and own ~= slurm.INFINITE
	if has_own and own * 60 < p05_sec then
		tell("the time limit of " .. own .. " min is shorter than 19 of 20 such jobs take; 999 of 1,000 keep " .. minutes .. " min")
	end
	if not job_desc.admin_comment or job_desc.admin_comment == "" then
		job_desc.admin_comment = comment
	end
	if head.mode == "enforce" and own == slurm.NO_VAL then
		set_limit(job_desc, part_list, partition, minutes)
	end
end

local function consider(job_desc, part_list)
	local text = request_of(job_desc.comment)
	if not text then
		return
	elseif exists(perfpred.disable) then
		error({ reason = "disabled", text = perfpred.disable .. " exists" })
	end
	local partition = partition_of(job_desc, part_list)
	local request = partition .. " " .. text
	local head, line = look_up(request)
	if line then
		take(job_desc, part_list, partition, head, line)
	else
		ask(request)
	end
end

function perfpred.submit(job_desc, part_list)
	local begin = os.clock()
	local good, problem = pcall(consider, job_desc, part_list)
	if not good then
		local known = type(problem) == "table"
		log(known and problem.reason or "error", "the job passes as it came: " .. (known and problem.text or tostring(problem)))
	end
	slurm.log_debug("perfpred: %s", string.format("took %.3f ms", 1000 * (os.clock() - begin)))
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	perfpred.submit(job_desc, part_list)
	return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
