/*
 * tool cpuwalk: which CPUs are busy, sampled 99 times per second
 * option -F --frequency NUMBER = 99 Hz: samples per second
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column CPU: number of the CPU
 * column BUSY: samples in which a thread ran
 * column SAMPLES: all samples
 * needs: perf events
 */
#pragma D option quiet

int over;

profile-FREQUENCY
{
	@busy[cpu] = sum(tid != 0);
	@all[cpu] = count();
}

tick-INTERVAL, END
/!over/
{
	printf("%-6s %10s %10s\n", "CPU", "BUSY", "SAMPLES");
	printa("%-6d %@10d %@10d\n", @busy, @all);
	trunc(@busy);
	trunc(@all);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
