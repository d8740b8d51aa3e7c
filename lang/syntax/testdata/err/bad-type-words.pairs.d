«unsigned string» s;
«long long long» x;
«int struct» foo *p;
«short long» y;
«void int» z;
«signed unsigned» w;
